/* inlay/extensions.h - functions that a host, or a provider, may have, by name.
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

/* For providers that pack weights, or make other things of constants that take long and need nothing but memory: the host
 * keeps them in a file (option cache_dir) and maps it when the same model is opened again.
 *
 *     status = packs->take(ctx, request->handle, &key, sizeof key, bytes, &data, &known);
 *     if (status == INLAY_UNSUPPORTED)
 *         data = my_own_memory(bytes);
 *     if (known == 0)
 *         pack(data, constant);
 *     if (status == INLAY_OK && known == 0)
 *         packs->keep(ctx, request->handle, data);
 */
#define INLAY_EXT_PACKS "inlay.packs/1"
typedef struct inlay_ext_packs {
    uint64_t struct_size;
    /* Memory of that many bytes, aligned to 64, until release_compiled returns. *out_known = 1: it holds what was kept
     * under this key and size, perhaps by an earlier process, and can only be read. Otherwise the provider fills it before
     * compile returns, and can only read it afterwards. key: bytes of the provider's that name all that decides the
     * contents: the content_hash of the constants, the layout, what of the CPU matters. The host adds the provider, the
     * build of its plugin, its options and the CPU. compile is the inlay_compile_request.handle in hand; only during that
     * call, but from any thread. INLAY_UNSUPPORTED: nothing is kept here, or not that much; take memory of your own. */
    inlay_status (*take)(void *ctx, void *compile, const void *key, uint64_t key_bytes, uint64_t bytes, void **out_data,
                         uint32_t *out_known);
    /* The memory is filled, and may be found next time. What is not kept is lost with the session. */
    void (*keep)(void *ctx, void *compile, const void *data);
} inlay_ext_packs;

/* Of a provider (inlay_provider.extension): what the optimiser should know of its integers. */
#define INLAY_EXT_INTEGERS "inlay.integers/1"
typedef struct inlay_ext_integers {
    uint64_t struct_size;
    uint32_t fast_products; /* 1: QLinearConv and MatMulInteger take less time here than the same with floats would */
    uint32_t reserved;
} inlay_ext_integers;

#ifdef __cplusplus
}
#endif
#endif
