/* sources.h - the list of source files that are compiled for several instruction sets, with their instances. */
#ifndef CPU_SOURCES_H
#define CPU_SOURCES_H
#include "inlay/extensions.h"

/* All source files, sorted by name. The chosen instance depends on the instruction set in use (simd/cpu.h); the first
 * call fixes the choice. Static. Thread-safe. */
const inlay_ext_sources *kernel_sources(void);
#endif
