/* A shared object that mentions everything public, so that its debug information describes the ABI: what abidw records
 * and abidiff compares. Whatever a function or struct here reaches is part of it. */
#include "inlay/inlay.h"
#include "inlay/plugin.h"

#define FUNCTION(name)                                                \
    __attribute__((visibility("default"))) extern __typeof__(name) *const surface_##name; \
    __typeof__(name) *const surface_##name = NULL;
#include "surface.def"
