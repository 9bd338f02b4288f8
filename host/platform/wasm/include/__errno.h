/* wasi-libc's objects have errno as a plain variable, because they are compiled for one thread; its header declares a
 * variable of the thread, which objects for several threads would access in another way. */
#ifndef WASM_ERRNO_H
#define WASM_ERRNO_H

extern int errno;
#define errno errno

#endif
