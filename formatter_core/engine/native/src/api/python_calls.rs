//! The calls of every step, of every format and of every sequence as functions that CPython calls by itself, in a fraction
//! of the time that ctypes takes.
//!
//! No interpreter is linked: Python hands over the addresses of the few functions of its stable ABI that are needed, and
//! makes function objects of `METHODS`. At its end, an interpreter may unwind the frames of a thread that asks for the GIL
//! (hence "C-unwind"); there is nothing in these frames that would have to be dropped.

use std::ffi::{c_char, c_int, c_longlong, c_void, CStr};
use std::mem::size_of;
use std::ptr::{null, null_mut};
use std::sync::{Arc, OnceLock};

use crate::api::interface::{
    fcn_grammar_free, fcn_grammar_new, fcn_sequence_accept_token, fcn_sequence_advance, fcn_sequence_fill,
    fcn_sequence_free, fcn_sequence_new, fcn_sequence_step, fcn_sequence_step_kept, view, Target, STOPPED,
};
use crate::api::interface_schema::{
    fcn_json_free, fcn_json_read, fcn_program_free, fcn_schema_free, fcn_schema_new, Found, Json,
};
use crate::schema::Written;

/// An object of Python.
type Object = *mut c_void;
/// Of `METH_FASTCALL`: takes the module, the arguments, and how many they are; null with an exception set for an error.
type Function = unsafe extern "C-unwind" fn(Object, *const Object, isize) -> Object;
/// Of a capsule: frees what it holds.
type Destructor = unsafe extern "C-unwind" fn(Object);

/// The functions of Python.
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

/// `PyMethodDef`.
#[repr(C)]
pub struct Method {
    name: *const c_char,
    function: Function,
    flags: c_int,
    doc: *const c_char,
}

// SAFETY: what it points to is never written.
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

/// The definitions of functions of Python, in the order of `METHODS`. The first five are those of `interface` for a target,
/// and for a target and a token: they take the target as bytes. Those that make something answer with its handle, or a
/// fault, and what owns it. All of them free the GIL.
///
/// # Safety
/// `python` points to the functions of the interpreter, as `Python` names them.
#[no_mangle]
pub unsafe extern "C" fn fcn_python_methods(python: *const Python) -> *const Method {
    // SAFETY: as the caller promises.
    PYTHON.get_or_init(|| unsafe { *python });
    METHODS.as_ptr()
}

/// What a tuple holds.
enum Value<'a> {
    Number(i64),
    Bytes(&'a [u8]),
    /// A capsule that owns what stands there, see `Owned`; if that is nothing, the number 0.
    Owner(*mut c_void, Destructor),
}

/// What a capsule may own. When the last reference to the capsule is gone, CPython frees it without a call in Python.
trait Owned {
    /// # Safety
    /// `owned` is a handle that nobody uses any more.
    unsafe fn free(owned: *mut Self);
}

/// The values that have handles, and what frees them.
macro_rules! owned {
    ($($name:ident: $free:path),*) => {
        $(
            enum $name {}

            impl Owned for $name {
                unsafe fn free(owned: *mut Self) {
                    // SAFETY: as the caller promises.
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

/// The destructor of a capsule.
unsafe extern "C-unwind" fn free_owned<T: Owned>(capsule: Object) {
    if let Some(python) = PYTHON.get() {
        // SAFETY: as CPython calls it: with a capsule that `Python::object` has made, and the GIL held.
        unsafe {
            let owned = (python.capsule_get_pointer)(capsule, null()).cast::<T>();
            python.without_gil(|| T::free(owned));
        }
    }
}

/// What owns a handle.
fn owner<'a, T: Owned, U>(made: *const U) -> Value<'a> {
    Value::Owner(made.cast_mut().cast(), free_owned::<T>)
}

impl Python {
    /// # Safety
    /// The GIL is held; `object` lives as long as the bytes are used.
    unsafe fn bytes<'a>(&self, object: Object) -> Option<&'a [u8]> {
        let (mut data, mut length) = (null(), 0);
        // SAFETY: as the caller promises.
        let answer = unsafe { (self.bytes_as_string_and_size)(object, &mut data, &mut length) };
        // SAFETY: the bytes are there.
        (answer == 0).then(|| unsafe { view(data.cast(), length as usize) })
    }

    /// A number from 0 on.
    ///
    /// # Safety
    /// The GIL is held.
    unsafe fn number<T: TryFrom<i64>>(&self, object: Object) -> Option<T> {
        // SAFETY: as the caller promises.
        let number = unsafe { (self.long_as_long_long)(object) };
        T::try_from(number).ok().filter(|_| number >= 0)
    }

    /// # Safety
    /// The GIL is held.
    unsafe fn object(&self, value: &Value) -> Object {
        // SAFETY: as the caller promises.
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
    /// The GIL is held.
    unsafe fn tuple<const N: usize>(&self, values: [Value; N]) -> Object {
        // SAFETY: as the caller promises.
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
    /// The GIL is held.
    unsafe fn without_gil<T>(&self, call: impl FnOnce() -> T) -> T {
        // SAFETY: as the caller promises.
        unsafe {
            let thread = (self.save_thread)();
            let answer = call();
            (self.restore_thread)(thread);
            answer
        }
    }

    /// Make a call without the GIL, and once more after each signal that ended it. None if a handler raised an exception.
    ///
    /// # Safety
    /// The GIL is held.
    unsafe fn call<T: From<i32> + PartialEq>(&self, mut call: impl FnMut() -> T) -> Option<T> {
        loop {
            // SAFETY: as the caller promises.
            let answer = unsafe { self.without_gil(&mut call) };
            if answer != STOPPED.into() {
                return Some(answer);
            }
            // SAFETY: the GIL is held again, and the call has left nothing locked.
            if unsafe { (self.check_signals)() } < 0 {
                return None;
            }
        }
    }
}

/// The interpreter and the arguments of a call, if they are as many as it takes.
///
/// # Safety
/// There are `count` arguments.
unsafe fn taken<const N: usize>(arguments: *const Object, count: isize) -> Option<(&'static Python, [Object; N])> {
    // SAFETY: as the caller promises.
    let given = unsafe { view(arguments, count as usize) };
    Some((PYTHON.get()?, given.try_into().ok()?))
}

/// A handle, unless the answer is a fault.
fn handle_or<T>(answer: i32, made: *const T) -> i64 {
    match answer {
        0.. => made as usize as i64,
        fault => fault.into(),
    }
}

/// # Safety
/// The GIL is held; there are `count` arguments, the first of them the bytes of a target as `fcn_sequence_fill` has it.
unsafe fn answer(arguments: *const Object, count: isize, wanted: isize, call: fn(*const Target, u32) -> i64) -> Object {
    let Some(python) = PYTHON.get().filter(|_| count == wanted) else {
        return null_mut();
    };
    // SAFETY: as the caller promises.
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
    // SAFETY: as Python calls it.
    unsafe { answer(arguments, count, 1, |target, _| fcn_sequence_fill(target).into()) }
}

unsafe extern "C-unwind" fn accept_token(_module: Object, arguments: *const Object, count: isize) -> Object {
    // SAFETY: as above.
    unsafe {
        answer(arguments, count, 2, |target, token| {
            fcn_sequence_accept_token(target, token).into()
        })
    }
}

unsafe extern "C-unwind" fn step(_module: Object, arguments: *const Object, count: isize) -> Object {
    // SAFETY: as above.
    unsafe {
        answer(arguments, count, 2, |target, token| {
            fcn_sequence_step(target, token).into()
        })
    }
}

unsafe extern "C-unwind" fn advance(_module: Object, arguments: *const Object, count: isize) -> Object {
    // SAFETY: as above.
    unsafe {
        answer(arguments, count, 2, |target, token| {
            fcn_sequence_advance(target, token).into()
        })
    }
}

unsafe extern "C-unwind" fn step_kept(_module: Object, arguments: *const Object, count: isize) -> Object {
    // SAFETY: as above.
    unsafe {
        answer(arguments, count, 2, |target, token| {
            fcn_sequence_step_kept(target, token)
        })
    }
}

/// The source, and whether it is data: the handle and its owner, the text, and whether that is exact.
unsafe extern "C-unwind" fn read_json(_module: Object, arguments: *const Object, count: isize) -> Object {
    // SAFETY: as Python calls it; the text lives as long as the handle.
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

/// The handles of `fcn_schema_new`, the most nodes, steps, repeats and levels, whether it is lenient, and alone: the handle, which is that of a
/// program if it is, its owner, and the program's nodes, or -1 for what says why the schema is refused.
unsafe extern "C-unwind" fn new_schema(_module: Object, arguments: *const Object, count: isize) -> Object {
    // SAFETY: as Python calls it, with live handles.
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

/// The vocabulary, bytes, where in them the program begins and ends, and the limits as bytes.
unsafe extern "C-unwind" fn new_grammar(_module: Object, arguments: *const Object, count: isize) -> Object {
    // SAFETY: as Python calls it, with a live handle.
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

/// The vocabulary, a program that the library has written, and the limits as bytes.
unsafe extern "C-unwind" fn load_program(_module: Object, arguments: *const Object, count: isize) -> Object {
    // SAFETY: as Python calls it, with live handles.
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

/// The grammar.
unsafe extern "C-unwind" fn new_sequence(_module: Object, arguments: *const Object, count: isize) -> Object {
    // SAFETY: as Python calls it, with a live handle.
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
