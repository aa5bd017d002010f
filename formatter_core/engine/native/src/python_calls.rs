//! The calls of every step as functions that CPython calls by itself, in a fraction of the time that ctypes takes.
//!
//! No interpreter is linked: Python hands over the addresses of the few functions of its stable ABI that are needed, and
//! makes function objects of `METHODS`. At its end, an interpreter may unwind the frames of a thread that asks for the GIL
//! (hence "C-unwind"); there is nothing in these frames that would have to be dropped.

use std::ffi::{c_char, c_int, c_longlong, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use crate::interface::{
    fcn_sequence_accept_token, fcn_sequence_advance, fcn_sequence_fill, fcn_sequence_step, fcn_sequence_step_kept,
    Target,
};

/// An object of Python.
type Object = *mut c_void;
/// Of `METH_FASTCALL`: takes the module, the arguments, and how many they are; null with an exception set for an error.
type Function = unsafe extern "C-unwind" fn(Object, *const Object, isize) -> Object;

/// The functions of Python.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Python {
    bytes_as_string: unsafe extern "C-unwind" fn(Object) -> *const c_char,
    long_as_long_long: unsafe extern "C-unwind" fn(Object) -> c_longlong,
    long_from_long_long: unsafe extern "C-unwind" fn(c_longlong) -> Object,
    save_thread: unsafe extern "C-unwind" fn() -> *mut c_void,
    restore_thread: unsafe extern "C-unwind" fn(*mut c_void),
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

static METHODS: [Method; 5] = [
    method(b"fill\0", fill),
    method(b"accept_token\0", accept_token),
    method(b"step\0", step),
    method(b"advance\0", advance),
    method(b"step_kept\0", step_kept),
];

const fn method(name: &'static [u8], function: Function) -> Method {
    Method {
        name: name.as_ptr().cast(),
        function,
        flags: METH_FASTCALL,
        doc: null(),
    }
}

/// The definitions of five functions of Python: those of `interface` for a target, and for a target and a token. They take
/// the target as bytes, and free the GIL.
///
/// # Safety
/// `python` points to the functions of the interpreter, as `Python` names them.
#[no_mangle]
pub unsafe extern "C" fn fcn_python_methods(python: *const Python) -> *const Method {
    // SAFETY: as the caller promises.
    PYTHON.get_or_init(|| unsafe { *python });
    METHODS.as_ptr()
}

/// # Safety
/// The GIL is held; there are `count` arguments, the first of them the bytes of a target as `fcn_sequence_fill` has it.
unsafe fn answer(arguments: *const Object, count: isize, wanted: isize, call: fn(*const Target, u32) -> i64) -> Object {
    let Some(python) = PYTHON.get().filter(|_| count == wanted) else {
        return null_mut();
    };
    // SAFETY: as the caller promises; Python's functions are called as it documents them.
    unsafe {
        let target = (python.bytes_as_string)(*arguments);
        if target.is_null() {
            return null_mut();
        }
        let token = match wanted {
            2 => (python.long_as_long_long)(*arguments.add(1)),
            _ => 0,
        };
        let Ok(token) = u32::try_from(token) else {
            return null_mut();
        };
        let thread = (python.save_thread)();
        let answer = call(target.cast(), token);
        (python.restore_thread)(thread);
        (python.long_from_long_long)(answer)
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
