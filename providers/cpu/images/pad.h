/* pad.h - padding of images. */
#ifndef CPU_PAD_H
#define CPU_PAD_H
#include "cpu/region/build.h"

/* Adds a step that pads a channels-last image with zeros before and after each spatial axis (pad.c). */
inlay_status cpu_emit_border(cpu_build *build, const cpu_place *input, const int64_t *before, const int64_t *after,
                             cpu_place *out);
#endif
