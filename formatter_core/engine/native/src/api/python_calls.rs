//! Functions that CPython calls directly, in a fraction of the time that ctypes takes. They cover the calls that happen
//! in every step, for every format and for every sequence.
//!
//! The library does not link to an interpreter. Python passes the addresses of the few functions of its stable ABI that
//! we need, and makes function objects from `METHODS`. At exit, an interpreter may unwind the frames of a thread that
//! requests the GIL (hence "C-unwind"); these frames contain nothing that must be dropped.

use std::ffi::{c_char, c_int, c_longlong, c_void, CStr};
use std::mem::size_of;
use std::ptr::{null, null_mut};
use std::sync::{Arc, OnceLock};

use crate::api::interface::{fcn_grammar_free, fcn_grammar_new, view, STOPPED};
use crate::api::interface_schema::{
    fcn_json_free, fcn_json_read, fcn_program_free, fcn_schema_free, fcn_schema_new, Found, Json,
};
use crate::api::interface_sequences::{
    fcn_sequence_accept_token, fcn_sequence_advance, fcn_sequence_fill, fcn_sequence_free, fcn_sequence_new,
    fcn_sequence_step, fcn_sequence_step_kept, Target,
};
use crate::schema::Written;

/// A Python object.
type Object = *mut c_void;
/// A `METH_FASTCALL` function: it takes the module, the arguments, and their number. It returns null with an exception
/// set for an error.
type Function = unsafe extern "C-unwind" fn(Object, *const Object, isize) -> Object;
/// The destructor of a capsule, which frees the value that the capsule owns.
type Destructor = unsafe extern "C-unwind" fn(Object);

/// The functions of Python's stable ABI that we call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Python {
    bytes_as_string_and_size: unsafe extern "C-unwind" fn(Object, *mut *const c_char, *mut isize) -> c_int,
    bytes_from_string_and_size: unsafe extern "C-unwind" fn(*const c_char, isize) -> Object,
    long_as_long_long: unsafe extern "C-unwind" fn(Object) -> c_longlong,
    long_from_long_long: unsafe extern "C-unwind" fn(c_longlong) -> Object,
    tuple_new: unsafe extern "C-unwind" fn(isize) -> Object,
    tuple_set_item: unsafe extern "C-unwind" fn(Object, isize, Object) -> c_int,
    save_thread: unsafe extern "C-unwind" fn() -> *mut c_void,
    restore_thread: unsafe extern "C-unwind" fn(*mut c_void),
    capsule_new: unsafe extern "C-unwind" fn(*mut c_void, *const c_char, Destructor) -> Object,
    capsule_get_pointer: unsafe extern "C-unwind" fn(Object, *const c_char) -> *mut c_void,
    check_signals: unsafe extern "C-unwind" fn() -> c_int,
}

static PYTHON: OnceLock<Python> = OnceLock::new();

/// The layout of `PyMethodDef`.
#[repr(C)]
pub struct Method {
    name: *const c_char,
    function: Function,
    flags: c_int,
    doc: *const c_char,
}

// SAFETY: the pointers refer to static data and functions that nobody writes to, so threads may share them.
unsafe impl Sync for Method {}

const METH_FASTCALL: c_int = 0x80;

static METHODS: [Method; 10] = [
    method(b"fill\0", fill),
    method(b"accept_token\0", accept_token),
    method(b"step\0", step),
    method(b"advance\0", advance),
    method(b"step_kept\0", step_kept),
    method(b"read_json\0", read_json),
    method(b"new_schema\0", new_schema),
    method(b"new_grammar\0", new_grammar),
    method(b"load_program\0", load_program),
    method(b"new_sequence\0", new_sequence),
];

const fn method(name: &'static [u8], function: Function) -> Method {
    Method {
        name: name.as_ptr().cast(),
        function,
        flags: METH_FASTCALL,
        doc: null(),
    }
}

/// Return the definitions of Python functions, in the order of `METHODS`. The first five are the functions of
/// `interface` that take a target, or a target and a token; they take the target as bytes. Functions that make a value
/// return its handle, or a fault, together with its owner. All of them release the GIL.
///
/// # Safety
/// `python` must point to the functions of the interpreter in the order of `Python`.
#[no_mangle]
pub unsafe extern "C" fn fcn_python_methods(python: *const Python) -> *const Method {
    // SAFETY: the caller guarantees that `python` points to a complete `Python` struct, which we copy.
    PYTHON.get_or_init(|| unsafe { *python });
    METHODS.as_ptr()
}

/// An item of a tuple.
enum Value<'a> {
    Number(i64),
    Bytes(&'a [u8]),
    /// A capsule that owns a handle, see `Owned`; the number 0 if the handle is null.
    Owner(*mut c_void, Destructor),
}

/// A value that a capsule may own. When the last reference to the capsule is dropped, CPython frees the value without
/// running Python code.
trait Owned {
    /// # Safety
    /// `owned` must be a handle that nobody uses any more.
    unsafe fn free(owned: *mut Self);
}

/// Defines the values that have handles, and the functions that free them.
macro_rules! owned {
    ($($name:ident: $free:path),*) => {
        $(
            enum $name {}

            impl Owned for $name {
                unsafe fn free(owned: *mut Self) {
                    // SAFETY: the caller guarantees that nobody uses the handle any more; `$free` is the function for
                    // handles of this kind.
                    unsafe { $free(owned.cast()) }
                }
            }
        )*
    };
}

owned! {
    OwnedJson: fcn_json_free,
    OwnedSchema: fcn_schema_free,
    OwnedProgram: fcn_program_free,
    OwnedGrammar: fcn_grammar_free,
    OwnedSequence: fcn_sequence_free
}

/// The destructor of capsules.
unsafe extern "C-unwind" fn free_owned<T: Owned>(capsule: Object) {
    if let Some(python) = PYTHON.get() {
        // SAFETY: CPython calls this function with the GIL held and passes a capsule that `Python::object` made. The
        // capsule is being destroyed, so nobody uses its handle any more.
        unsafe {
            let owned = (python.capsule_get_pointer)(capsule, null()).cast::<T>();
            python.without_gil(|| T::free(owned));
        }
    }
}

/// Return the owner of a handle.
fn owner<'a, T: Owned, U>(made: *const U) -> Value<'a> {
    Value::Owner(made.cast_mut().cast(), free_owned::<T>)
}

impl Python {
    /// # Safety
    /// The caller must hold the GIL, and `object` must live as long as the bytes are used.
    unsafe fn bytes<'a>(&self, object: Object) -> Option<&'a [u8]> {
        let (mut data, mut length) = (null(), 0);
        // SAFETY: the caller holds the GIL, and `object` is a live Python object.
        let answer = unsafe { (self.bytes_as_string_and_size)(object, &mut data, &mut length) };
        // SAFETY: Python returned a pointer to `length` bytes, and the caller keeps `object` alive while they are used.
        (answer == 0).then(|| unsafe { view(data.cast(), length as usize) })
    }

    /// Read a number that is not negative.
    ///
    /// # Safety
    /// The caller must hold the GIL.
    unsafe fn number<T: TryFrom<i64>>(&self, object: Object) -> Option<T> {
        // SAFETY: the caller holds the GIL.
        let number = unsafe { (self.long_as_long_long)(object) };
        T::try_from(number).ok().filter(|_| number >= 0)
    }

    /// # Safety
    /// The caller must hold the GIL.
    unsafe fn object(&self, value: &Value) -> Object {
        // SAFETY: the caller holds the GIL; `bytes` is a valid slice, and `free` destroys handles of the kind of
        // `owned`.
        unsafe {
            match value {
                Value::Number(number) => (self.long_from_long_long)(*number),
                Value::Bytes(bytes) => (self.bytes_from_string_and_size)(bytes.as_ptr().cast(), bytes.len() as isize),
                Value::Owner(owned, _) if owned.is_null() => (self.long_from_long_long)(0),
                Value::Owner(owned, free) => (self.capsule_new)(*owned, null(), *free),
            }
        }
    }

    /// # Safety
    /// The caller must hold the GIL.
    unsafe fn tuple<const N: usize>(&self, values: [Value; N]) -> Object {
        // SAFETY: the caller holds the GIL; we fill each place of the new tuple once and own the objects that we put
        // there.
        unsafe {
            let tuple = (self.tuple_new)(N as isize);
            for (place, value) in (0..).zip(&values) {
                let object = self.object(value);
                if tuple.is_null() || object.is_null() {
                    return null_mut();
                }
                (self.tuple_set_item)(tuple, place, object);
            }
            tuple
        }
    }

    /// # Safety
    /// The caller must hold the GIL.
    unsafe fn without_gil<T>(&self, call: impl FnOnce() -> T) -> T {
        // SAFETY: the caller holds the GIL, and we take it back before we return.
        unsafe {
            let thread = (self.save_thread)();
            let answer = call();
            (self.restore_thread)(thread);
            answer
        }
    }

    /// Make a call without the GIL, and repeat it after each signal that stopped it. Return None if a handler raised an
    /// exception.
    ///
    /// # Safety
    /// The caller must hold the GIL.
    unsafe fn call<T: From<i32> + PartialEq>(&self, mut call: impl FnMut() -> T) -> Option<T> {
        loop {
            // SAFETY: the caller holds the GIL.
            let answer = unsafe { self.without_gil(&mut call) };
            if answer != STOPPED.into() {
                return Some(answer);
            }
            // SAFETY: `without_gil` has taken the GIL back, and the call has released all locks.
            if unsafe { (self.check_signals)() } < 0 {
                return None;
            }
        }
    }
}

/// Return the interpreter and the arguments of a call, if their number is right.
///
/// # Safety
/// `arguments` must point to `count` arguments.
unsafe fn taken<const N: usize>(arguments: *const Object, count: isize) -> Option<(&'static Python, [Object; N])> {
    // SAFETY: the caller guarantees that `arguments` points to `count` arguments.
    let given = unsafe { view(arguments, count as usize) };
    Some((PYTHON.get()?, given.try_into().ok()?))
}

/// Return a handle as a number, or the fault if there is one.
fn handle_or<T>(answer: i32, made: *const T) -> i64 {
    match answer {
        0.. => made as usize as i64,
        fault => fault.into(),
    }
}

/// # Safety
/// The caller must hold the GIL. There must be `count` arguments; the first must be the bytes of a target that is valid
/// for `fcn_sequence_fill`.
unsafe fn answer(arguments: *const Object, count: isize, wanted: isize, call: fn(*const Target, u32) -> i64) -> Object {
    let Some(python) = PYTHON.get().filter(|_| count == wanted) else {
        return null_mut();
    };
    // SAFETY: the caller guarantees the GIL and the number of arguments; the Python binding makes the target's bytes
    // and keeps its sequence and row alive during the call.
    unsafe {
        let Some(target) = python.bytes(*arguments) else {
            return null_mut();
        };
        let token = match wanted {
            2 => python.number(*arguments.add(1)),
            _ => Some(0),
        };
        let Some(token) = token else {
            return null_mut();
        };
        match python.call(|| call(target.as_ptr().cast(), token)) {
            Some(answer) => (python.long_from_long_long)(answer),
            None => null_mut(),
        }
    }
}

unsafe extern "C-unwind" fn fill(_module: Object, arguments: *const Object, count: isize) -> Object {
    // SAFETY: CPython calls this function with the GIL held and passes `count` arguments; the Python binding passes the
    // bytes of a valid target first.
    unsafe { answer(arguments, count, 1, |target, _| fcn_sequence_fill(target).into()) }
}

unsafe extern "C-unwind" fn accept_token(_module: Object, arguments: *const Object, count: isize) -> Object {
    // SAFETY: see `fill`.
    unsafe {
        answer(arguments, count, 2, |target, token| {
            fcn_sequence_accept_token(target, token).into()
        })
    }
}

unsafe extern "C-unwind" fn step(_module: Object, arguments: *const Object, count: isize) -> Object {
    // SAFETY: see `fill`.
    unsafe {
        answer(arguments, count, 2, |target, token| {
            fcn_sequence_step(target, token).into()
        })
    }
}

unsafe extern "C-unwind" fn advance(_module: Object, arguments: *const Object, count: isize) -> Object {
    // SAFETY: see `fill`.
    unsafe {
        answer(arguments, count, 2, |target, token| {
            fcn_sequence_advance(target, token).into()
        })
    }
}

unsafe extern "C-unwind" fn step_kept(_module: Object, arguments: *const Object, count: isize) -> Object {
    // SAFETY: see `fill`.
    unsafe {
        answer(arguments, count, 2, |target, token| {
            fcn_sequence_step_kept(target, token)
        })
    }
}

/// Read JSON from a source; the second argument tells whether the source is marshalled data. Return the handle and its
/// owner, the text, and whether the text is exact.
unsafe extern "C-unwind" fn read_json(_module: Object, arguments: *const Object, count: isize) -> Object {
    // SAFETY: CPython calls this function with the GIL held and passes `count` arguments; the text is part of the
    // document, which lives until its owner is freed.
    unsafe {
        let Some((python, [source, is_data])) = taken(arguments, count) else {
            return null_mut();
        };
        let (Some(source), Some(is_data)) = (python.bytes(source), python.number(is_data)) else {
            return null_mut();
        };
        let (mut found, mut made) = (Json::default(), null_mut());
        let Some(answer) = python.call(|| fcn_json_read(source.as_ptr(), source.len(), is_data, &mut found, &mut made))
        else {
            return null_mut();
        };
        let text = CStr::from_ptr(found.text.cast()).to_bytes();
        python.tuple([
            Value::Number(handle_or(answer, made)),
            owner::<OwnedJson, _>(made),
            Value::Bytes(text),
            Value::Number(found.is_exact.into()),
        ])
    }
}

/// Lower a schema. The arguments are the handles of `fcn_schema_new`, the maximum nodes, steps, repeats and levels, and
/// the flags `lenient` and `alone`. Return the handle, its owner, and the number of nodes. The handle is that of a
/// program if the schema is `alone` or refused; for a refusal, the number of nodes is -1.
unsafe extern "C-unwind" fn new_schema(_module: Object, arguments: *const Object, count: isize) -> Object {
    // SAFETY: CPython calls this function with the GIL held and passes `count` arguments; the Python binding keeps both
    // handles alive during the call.
    unsafe {
        let Some((python, [common, tree, nodes, work, repeat, depth, lenient, alone])) = taken(arguments, count) else {
            return null_mut();
        };
        let handles = (python.number::<usize>(common), python.number::<usize>(tree));
        let limits = (python.number(nodes), python.number(work), python.number(repeat));
        let ((Some(common), Some(tree)), (Some(nodes), Some(work), Some(repeat))) = (handles, limits) else {
            return null_mut();
        };
        let rest = (python.number(depth), python.number(lenient), python.number(alone));
        let (Some(depth), Some(lenient), Some(alone)) = rest else {
            return null_mut();
        };
        let (mut found, mut made, mut written) = (Found::default(), null_mut(), null_mut());
        let (common, tree) = (common as *const Arc<_>, tree as *const _);
        let call = || {
            fcn_schema_new(
                common,
                tree,
                nodes,
                work,
                repeat,
                depth,
                lenient,
                alone,
                &mut found,
                &mut made,
                &mut written,
            )
        };
        let Some(answer) = python.call(call) else {
            return null_mut();
        };
        let (handle, owner) = match written.is_null() {
            false => (handle_or(answer, written), owner::<OwnedProgram, _>(written)),
            true => (handle_or(answer, made), owner::<OwnedSchema, _>(made)),
        };
        let nodes = if found.is_refused != 0 { -1 } else { found.nodes as i64 };
        python.tuple([Value::Number(handle), owner, Value::Number(nodes)])
    }
}

/// Compile a grammar. The arguments are the vocabulary, bytes, the offsets in the bytes at which the program begins and
/// ends, and the limits as bytes.
unsafe extern "C-unwind" fn new_grammar(_module: Object, arguments: *const Object, count: isize) -> Object {
    // SAFETY: CPython calls this function with the GIL held and passes `count` arguments, whose bytes live during the
    // call; the Python binding keeps the vocabulary alive. We have checked the length of the limits.
    unsafe {
        let Some((python, [vocabulary, data, begin, end, limits])) = taken(arguments, count) else {
            return null_mut();
        };
        let handle = python.number::<usize>(vocabulary);
        let (Some(vocabulary), Some(data), Some(limits)) = (handle, python.bytes(data), python.bytes(limits)) else {
            return null_mut();
        };
        let (Some(begin), Some(end)) = (python.number(begin), python.number(end)) else {
            return null_mut();
        };
        if limits.len() != size_of::<[u64; 4]>() {
            return null_mut();
        }
        let mut made = null();
        let (vocabulary, limits) = (vocabulary as *const _, limits.as_ptr().cast());
        let length = data.len();
        let call = || fcn_grammar_new(vocabulary, data.as_ptr(), length, begin, end, limits, &mut made);
        let Some(answer) = python.call(call) else {
            return null_mut();
        };
        python.tuple([Value::Number(handle_or(answer, made)), owner::<OwnedGrammar, _>(made)])
    }
}

/// Compile a grammar from a program that the library wrote. The arguments are the vocabulary, the program, and the
/// limits as bytes.
unsafe extern "C-unwind" fn load_program(_module: Object, arguments: *const Object, count: isize) -> Object {
    // SAFETY: CPython calls this function with the GIL held and passes `count` arguments; the Python binding keeps the
    // vocabulary and the program alive during the call. We have checked the length of the limits.
    unsafe {
        let Some((python, [vocabulary, program, limits])) = taken(arguments, count) else {
            return null_mut();
        };
        let handles = (python.number::<usize>(vocabulary), python.number::<usize>(program));
        let ((Some(vocabulary), Some(program)), Some(limits)) = (handles, python.bytes(limits)) else {
            return null_mut();
        };
        if limits.len() != size_of::<[u64; 4]>() {
            return null_mut();
        }
        let mut made = null();
        let (vocabulary, data, limits) = (
            vocabulary as *const _,
            &(*(program as *const Written)).program,
            limits.as_ptr(),
        );
        let (begin, end) = (0, data.len());
        let call = || fcn_grammar_new(vocabulary, data.as_ptr(), end, begin, end, limits.cast(), &mut made);
        let Some(answer) = python.call(call) else {
            return null_mut();
        };
        python.tuple([Value::Number(handle_or(answer, made)), owner::<OwnedGrammar, _>(made)])
    }
}

/// Begin a sequence of a grammar, which is the only argument.
unsafe extern "C-unwind" fn new_sequence(_module: Object, arguments: *const Object, count: isize) -> Object {
    // SAFETY: CPython calls this function with the GIL held and passes `count` arguments; the Python binding keeps the
    // grammar alive during the call.
    unsafe {
        let Some((python, [grammar])) = taken(arguments, count) else {
            return null_mut();
        };
        let Some(grammar) = python.number::<usize>(grammar) else {
            return null_mut();
        };
        let mut made = null_mut();
        let Some(answer) = python.call(|| fcn_sequence_new(grammar as *const _, &mut made)) else {
            return null_mut();
        };
        python.tuple([Value::Number(handle_or(answer, made)), owner::<OwnedSequence, _>(made)])
    }
}
