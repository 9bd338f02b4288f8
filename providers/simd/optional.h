/* simd/optional.h - marks functions of providers that programs of `inlay bundle` may omit. The file that defines a
 * function marks it. The build of the run-time part collects the marks in the list parts.txt, which `inlay bundle`
 * reads.
 *
 * OPTIONAL_WITH(function, "FAMILY..."): only operators of these families of provider cpu need the function (a+b: only
 * both together). In other programs a stub that returns 0 or NULL replaces it.
 *
 * OPTIONAL_BY_DATA(parts, "FAMILY..."): operators of these families choose among the parts of kernels (KERNEL_PART)
 * whose names begin with `parts` by the data of a run, such as an expert's number of rows. Their programs have all.
 *
 * OPTIONAL_IF_CALLED(function): the function is called while a region is compiled; it is included if a first run calls
 * it.
 *
 * The marks are in a section that the linker drops. */
#ifndef SIMD_OPTIONAL_H
#define SIMD_OPTIONAL_H

#if defined(__wasm__)
#define OPTIONAL_TEXT(text)                                                                                            \
    __asm__(".section .custom_section.bundle_parts,\"\",@\n    .ascii \"\\n" text "\\n\"\n    .text\n")
#elif defined(_WIN32) /* no programs of `inlay bundle` */
#define OPTIONAL_TEXT(text) struct optional_text
#else
#define OPTIONAL_TEXT(text) __asm__(".pushsection .bundle_parts,\"e\"\n    .asciz \"" text "\"\n    .popsection\n")
#endif
#define OPTIONAL_NOTE(function, text)                                                                                  \
    extern __typeof__(function)(function);                                                                             \
    OPTIONAL_TEXT(text)

#define OPTIONAL_WITH(function, families) OPTIONAL_NOTE(function, "set " #function " " families)
#define OPTIONAL_BY_DATA(parts, families) OPTIONAL_TEXT("data part_" parts " " families)
#define OPTIONAL_IF_CALLED(function) OPTIONAL_NOTE(function, "function " #function)
#endif
