/* simd/optional.h - functions of providers that programs of `inlay bundle` can do without. A file states it of those
 * that it defines; the list that the verb works with (parts.txt) is made of these notes when the run-time part is
 * built.
 *
 * OPTIONAL_WITH(function, "FAMILY..."): only operators of these families of the provider cpu need it (a+b: of both). In
 * other programs a function that returns 0 or NULL stands for it.
 *
 * OPTIONAL_IF_CALLED(function): called while a region is compiled; needed if a first run calls it.
 *
 * The notes are in a section that no link keeps. */
#ifndef SIMD_OPTIONAL_H
#define SIMD_OPTIONAL_H

#define OPTIONAL_NOTE(function, text)                                                                                  \
    extern __typeof__(function)(function);                                                                             \
    __asm__(".pushsection .bundle_parts,\"e\"\n    .asciz \"" text "\"\n    .popsection\n")

#define OPTIONAL_WITH(function, families) OPTIONAL_NOTE(function, "set " #function " " families)
#define OPTIONAL_IF_CALLED(function) OPTIONAL_NOTE(function, "function " #function)
#endif
