/* sources.h - the sources here that are compiled for several levels of instructions, with their instances. */
#ifndef CPU_SOURCES_H
#define CPU_SOURCES_H
#include "inlay/extensions.h"

/* All of them, by name. Which instance is chosen is settled by the level in use (cpu.h), so the first call fixes that.
 * Static. Thread-safe. */
const inlay_ext_sources *kernel_sources(void);
#endif
