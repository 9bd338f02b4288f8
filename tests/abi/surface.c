/* A shared object that references all public functions and extensions, so that its debug information describes the ABI,
 * which abidw records and abidiff compares. All types that these functions use are part of it. */
#include "inlay/extensions.h"
#include "inlay/inlay.h"
#include "inlay/plugin.h"
#include "inlay/text.h"

#define FUNCTION(name)                                                                                                 \
    __attribute__((visibility("default"))) extern __typeof__(name) *const surface_##name;                              \
    __typeof__(name) *const surface_##name = NULL;
#include "surface.def"

/* Extensions are looked up by name at run time, so that no function references their structs. */
#define EXTENSION(type)                                                                                                \
    __attribute__((visibility("default"))) extern const type *const surface_of_##type;                                 \
    const type *const surface_of_##type = NULL;
EXTENSION(inlay_ext_constants)
EXTENSION(inlay_ext_packs)
EXTENSION(inlay_ext_timings)
EXTENSION(inlay_ext_kernels)
EXTENSION(inlay_kernel)
EXTENSION(inlay_ext_integers)
EXTENSION(inlay_ext_sources)
EXTENSION(inlay_ext_weights)
EXTENSION(inlay_ext_bodies)
EXTENSION(inlay_ext_states)
EXTENSION(inlay_body)
EXTENSION(inlay_ext_steps)
EXTENSION(inlay_ext_team)
EXTENSION(inlay_ext_speed)
EXTENSION(inlay_speed)
EXTENSION(inlay_ext_streams)
EXTENSION(inlay_ext_branches)
EXTENSION(inlay_ext_control)
EXTENSION(inlay_ext_schemas)
EXTENSION(inlay_schema)
EXTENSION(inlay_formal)
EXTENSION(inlay_schema_types)
EXTENSION(inlay_ext_operators)
