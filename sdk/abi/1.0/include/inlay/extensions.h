/* inlay/extensions.h - functions that a host may have, by name.
 *
 *     const inlay_ext_constants *e = host->extension(host->ctx, INLAY_EXT_CONSTANTS);
 *     if (e != NULL && INLAY_HAS(e, release))
 *         e->release(host->ctx, request->handle, value);
 *
 * A host without one answers NULL, and a plugin works without. A table lives as long as the host and grows at its end;
 * a change of meaning gets another name. */
#ifndef INLAY_EXTENSIONS_H
#define INLAY_EXTENSIONS_H
#include "inlay/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For providers that compile many constants in one region: otherwise all originals stay in memory until compile
 * returns, beside everything that was packed from them. */
#define INLAY_EXT_CONSTANTS "inlay.constants/1"
typedef struct inlay_ext_constants {
    uint64_t struct_size;
    /* The provider has read constant `value` of the snapshot and does not expect to soon again: its pages may leave
     * memory. It stays where it is and can still be read; what compile answers in inlay_compile_request.constants holds
     * as before. compile is the inlay_compile_request.handle in hand; only during that call. */
    void (*release)(void *ctx, void *compile, uint32_t value);
} inlay_ext_constants;

#ifdef __cplusplus
}
#endif
#endif
