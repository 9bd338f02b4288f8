/* The provider cpu in a bundled program. */
#include "bundled/bundled.h"
#include "cpu/quantized/bytes.h"
#include "simd/cpu.h"
#include "cpu/compile/compile.h"
#include "cpu/choice/kernels.h"
#include "cpu/layout/moves.h"
#include "cpu/weights/nbits.h"
#include "cpu/quantized/quant.h"
#include "cpu/matrix/sgemm.h"
#include "cpu/convolution/tiles.h"

static bool wants_reduced(const inlay_create_args *args)
{
    for (uint32_t i = 0; i < args->option_count; i++) {
        const inlay_option_value *value = INLAY_AT(inlay_option_value, args->options, args->option_stride, i);

        if (strcmp(value->name, "precision") == 0 && value->s != NULL && strcmp(value->s, "reduced") == 0)
            return true;
    }
    return false;
}

static inlay_status create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    cpu_state *state = calloc(1, sizeof *state);

    (void)ctx;
    *out_state = state;
#if defined(__x86_64__)
    if (!cpu_has(CPU_AVX2))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "this program needs a CPU with AVX2");
#endif
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for provider cpu");
    state->scratch = calloc(1, sizeof *state->scratch);
    state->packed_for = pack_registry_create();
    if (state->scratch == NULL || state->packed_for == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for provider cpu");
    state->host = host;
    state->budget = args->max_threads;
    state->packs = host->extension(host->ctx, INLAY_EXT_PACKS);
    state->tiles = tiles_of_cpu();
    state->moves = moves_of_cpu();
    state->bytes = byte_set_of_cpu();
    state->sgemm = sgemm_kernel_best();
    state->nbits = state->sgemm != NULL ? nbits_kernel_best() : NULL;
    cpu_read_options(state, args);
    if (wants_reduced(args))
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "precision reduced needs libdnnl, which this program does not include");
    return INLAY_OK;
}

const inlay_provider *bundled_cpu(const inlay_host *host)
{
    static const inlay_provider provider = {
        .struct_size = sizeof provider,
        .name = "cpu",
        .create = create,
        .compile = cpu_compile,
        .release_compiled = cpu_release_compiled,
        .specialize = cpu_specialize,
        .release_instance = cpu_release_instance,
        .execute = cpu_execute,
    };

    (void)host;
    return &provider;
}
