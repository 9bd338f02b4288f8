/* What the providers of regions have in common: options, and the way from the plugin ABI to regions. */
#include "provider.h"
#include "choice/kernels.h"
#include "convolution/tiles.h"
#include "layout/moves.h"
#include "matrix/pairs.h"
#include "matrix/sgemm.h"
#include "quantized/bytes.h"
#include "quantized/quant.h"
#include "simd/cpu.h"
#include "sources.h"
#include "weights/nbits.h"
#include <stdio.h>

/* The first two are the library's, the last is for a provider without one. */
static const inlay_option options[] = {
    { .name = "own_loops",
      .kind = INLAY_OPTION_BOOL,
      .default_value = "0",
      .doc = "0 = convolutions, matrix multiplications and attention use only the kernels of oneDNN; 1 = also those of "
             "the provider cpu, where they are expected to be faster" },
    { .name = "kernel",
      .kind = INLAY_OPTION_ENUM,
      .default_value = "auto",
      .choices = "auto|tiles|winograd_4x4|winograd_2x2|depthwise|planes|rows|groups|library|library_blocked|library_"
                 "winograd|gemm|"
                 "pairs|packed|packed_pairs|packed_sparse|inner_product|plain|batched|matmul",
      .doc = "kernel for all convolutions (tiles ... pairs) or matrix multiplications (packed ... matmul) that it "
             "supports; auto = the one that is expected, or was measured, to be fastest" },
    { .name = "winograd",
      .kind = INLAY_OPTION_BOOL,
      .default_value = "1",
      .doc = "1 = 3x3 convolutions may use Winograd's algorithm where it is faster and its error is bounded: with the "
             "given weights, below 1e-5 of the largest result and below 16 times the error of a plain sum; images that "
             "exceed this bound are computed as plain sums" },
    { .name = "pack_price",
      .kind = INLAY_OPTION_INT,
      .default_value = "0",
      .max = 1000000,
      .doc = "microseconds per run that a convolution kernel must save for each MiB that its transformed weights take "
             "in addition to the original ones; 0 = the fastest kernel, whatever the size of its weights" },
    { .name = "pairs",
      .kind = INLAY_OPTION_BOOL,
      .default_value = "1",
      .doc = "1 = with precision fast, matrix multiplications with constants may use Winograd's inner product, which "
             "needs half of the multiplications, where it is faster; all digits may be lost if inputs or weights "
             "differ much in magnitude" },
    { .name = "precision",
      .kind = INLAY_OPTION_ENUM,
      .default_value = "f32",
      .choices = "strict|f32|fast|reduced",
      .doc = "how float operators are computed: strict = plain sums, without Winograd's algorithm; f32 = the error has "
             "a bound for any finite input; fast = also Winograd's algorithms without that bound; reduced = matrix "
             "multiplications in bfloat16 with float sums, where the CPU supports them; the session's option of this "
             "name sets it" },
    { .name = "activations",
      .kind = INLAY_OPTION_ENUM,
      .default_value = "auto",
      .choices = "auto|exact|fine|byte",
      .doc =
          "how matrix multiplications with packed weights of 2, 4 and 8 bits read activations: exact = as floats; fine "
          "= as 16-bit integers, with an error of at most 2^-16 of the largest in each block of 32; byte = as 8-bit "
          "integers; auto = fine with precision fast or if the model requests 8 bits (accuracy_level 4), otherwise "
          "exact; always exact with precision strict, and for rows with infinities or NaN" },
    { .name = "reproducible",
      .kind = INLAY_OPTION_BOOL,
      .default_value = "0",
      .doc =
          "1 = one fixed kernel for each kind of convolution and matrix multiplication, whatever the sizes, the number "
          "of rows and earlier measurements; the session's option of this name sets it" },
    { .name = "isa",
      .kind = INLAY_OPTION_ENUM,
      .default_value = "auto",
      .choices = CPU_ISA_CHOICES,
      .doc = CPU_ISA_DOC },
    { .name = "kernel",
      .kind = INLAY_OPTION_ENUM,
      .default_value = "auto",
      .choices = "auto|tiles|winograd_4x4|winograd_2x2|depthwise|planes|rows|groups|gemm|pairs|packed|packed_pairs|"
                 "packed_sparse|batched",
      .doc = "kernel for all convolutions (tiles ... pairs) or matrix multiplications (packed ... batched) that it "
             "supports; auto = the one that is expected, or was measured, to be fastest" },
};

/* Before anything asks which kernels this CPU has. */
static inlay_status cap_cpu(const inlay_create_args *args, inlay_diag *diag)
{
    for (uint32_t i = 0; i < args->option_count; i++) {
        const inlay_option_value *value = INLAY_AT(inlay_option_value, args->options, args->option_stride, i);

        if (strcmp(value->name, "isa") == 0 && value->s != NULL)
            return cpu_cap(value->s, diag);
    }
    return INLAY_OK;
}

/* A provider of a library has its kernels alone, unless an option says otherwise. Plain C is slower than the library's
 * oldest kernels. */
static bool takes_own_loops(const cpu_front *front, const inlay_create_args *args)
{
    bool own = front->library == NULL;

#if defined(__x86_64__)
    if (!own && !cpu_has(CPU_AVX2))
        return false;
#endif
    for (uint32_t i = 0; !own && i < args->option_count; i++) {
        const inlay_option_value *value = INLAY_AT(inlay_option_value, args->options, args->option_stride, i);

        own = strcmp(value->name, "own_loops") == 0 && value->i != 0;
    }
    return own;
}

/* Options of kernels that the provider cpu has: whoever set them here is told where. */
static void tell_of_cpu(const cpu_front *front, const inlay_host *host, const inlay_create_args *args)
{
    static const char *const ours[] = { "winograd", "pairs", "activations" };

    for (uint32_t i = 0; i < args->option_count; i++) {
        const inlay_option_value *value = INLAY_AT(inlay_option_value, args->options, args->option_stride, i);
        char text[200];

        for (size_t k = 0; k < KIT_COUNT(ours); k++) {
            if (value->is_set == 0 || strcmp(value->name, ours[k]) != 0)
                continue;
            (void)snprintf(text, sizeof text,
                           "option %s.%s: these kernels are the provider cpu's (cpu.%s); %s has them with own_loops 1",
                           front->name, value->name, value->name, front->name);
            host->log(host->ctx, INLAY_LOG_WARNING, text);
        }
    }
}

/* All but the engine. */
static void release(cpu_state *state)
{
    pack_registry_destroy(state->packed_for);
    free(state->scratch);
    free(state);
}

static inlay_status create(void *front_, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    const cpu_front *front = front_;
    cpu_state *state = calloc(1, sizeof *state);
    bool reduced = false;
    kit_refusal why = { 0, "", "" };
    inlay_status status = cap_cpu(args, diag);

    *out_state = NULL;
    library_in_use = front->library != NULL ? front->library : &library_none;
    if (status != INLAY_OK) {
        free(state);
        return status;
    }
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for provider %s", front->name);
    state->scratch = calloc(1, sizeof *state->scratch);
    state->packed_for = pack_registry_create();
    if (state->scratch == NULL || state->packed_for == NULL) {
        release(state);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for provider %s", front->name);
    }
    state->host = host;
    state->alone = front->library == NULL;
    state->budget = args->max_threads;
    state->constants = host->extension(host->ctx, INLAY_EXT_CONSTANTS);
    if (state->constants != NULL && !INLAY_HAS(state->constants, release))
        state->constants = NULL;
    state->packs = host->extension(host->ctx, INLAY_EXT_PACKS);
    if (state->packs != NULL && !INLAY_HAS(state->packs, keep))
        state->packs = NULL;
    state->timings = host->extension(host->ctx, INLAY_EXT_TIMINGS);
    if (state->timings != NULL && !INLAY_HAS(state->timings, find))
        state->timings = NULL;
    state->steps = host->extension(host->ctx, INLAY_EXT_STEPS);
    if (state->steps != NULL && !INLAY_HAS(state->steps, done))
        state->steps = NULL;
    state->team = host->extension(host->ctx, INLAY_EXT_TEAM);
    if (state->team != NULL && !INLAY_HAS(state->team, gather))
        state->team = NULL;
    if (takes_own_loops(front, args)) {
        state->tiles = tiles_of_cpu();
        state->moves = moves_of_cpu();
        state->bytes = byte_set_of_cpu();
        state->sgemm = state->attend = sgemm_kernel_best();
        state->nbits = nbits_kernel_best();
    } else {
        state->library_alone = true;
        tell_of_cpu(front, host, args);
        state->bytes = q_library_has_products(&why) ? NULL : byte_set_of_cpu(); /* which has no others */
    }
    cpu_read_options(state, args, &reduced);
    state->pairs = state->pairs && pairs_of_cpu() != NULL;
    state->fast_pairs = state->pairs && pairs_are_fast();
    state->bf16 = reduced && cpu_has_bf16();
    if (state->bf16)
        state->sgemm = NULL; /* floats alone */
    if (front->library != NULL) {
        library_status code = library_engine_create(&state->engine);

        if (code != LIBRARY_SUCCESS) {
            release(state);
            return inlay_fail(diag, INLAY_UNSUPPORTED,
                              "no oneDNN: libdnnl is not installed, or knows nothing of this CPU (status %d)",
                              (int)code);
        }
    }
    *out_state = state;
    return INLAY_OK;
}

static void destroy(void *state_)
{
    cpu_state *state = state_;

    if (state == NULL)
        return;
    if (state->engine != NULL)
        library_engine_destroy(state->engine);
    cpu_scratch_drop(state->scratch);
    release(state);
}

static const void *extension(void *state_, const char *name)
{
    static const inlay_ext_integers fast = { .struct_size = sizeof fast, .fast_products = 1 };
    static const inlay_ext_kernels kernels = { .struct_size = sizeof kernels,
                                               .list = kernel_list,
                                               .time = kernel_tune };
    static const inlay_ext_states states = { .struct_size = sizeof states, .appends = cpu_appends, .reads = cpu_reads };
    static const inlay_ext_branches branches = { .struct_size = sizeof branches, .may = cpu_may_branch };
    static const inlay_ext_weights weights = { .struct_size = sizeof weights, .packed_products = 2 | 4 };
    const cpu_state *state = state_;
    kit_refusal why = { 0, "", "" };

    if (strcmp(name, INLAY_EXT_WEIGHTS) == 0)
        return state->nbits != NULL && state->sgemm != NULL ? &weights : NULL;
    if (strcmp(name, INLAY_EXT_BRANCHES) == 0)
        return &branches;
    if (strcmp(name, INLAY_EXT_STATES) == 0)
        return &states;
    if (strcmp(name, INLAY_EXT_KERNELS) == 0)
        return &kernels;
    if (strcmp(name, INLAY_EXT_SOURCES) == 0)
        return state->library_alone ? NULL : kernel_sources();
    if (strcmp(name, INLAY_EXT_INTEGERS) == 0 && (q_library_has_products(&why) || byte_set_of_cpu() != NULL))
        return &fast;
    return NULL;
}

inlay_provider cpu_provider(const cpu_front *front)
{
    const uint32_t of_library = 2, count = KIT_COUNT(options) - (front->library != NULL ? 1 : of_library);

    return (inlay_provider){
        .struct_size = sizeof(inlay_provider),
        .name = front->name,
        .description = front->description,
        .device_kind = INLAY_DEVICE_CPU,
        .flags = INLAY_PROVIDER_REFERENCE_CORE,
        .options = front->library != NULL ? options : options + of_library,
        .option_count = count,
        .option_stride = sizeof(inlay_option),
        .poll_ms = 1000,
        .ctx = (void *)(uintptr_t)front,
        .create = create,
        .destroy = destroy,
        .assess = cpu_assess,
        .cost = cpu_cost,
        .compile = cpu_compile,
        .release_compiled = cpu_release_compiled,
        .specialize = cpu_specialize,
        .release_instance = cpu_release_instance,
        .execute = cpu_execute,
        .extension = extension,
    };
}

inlay_status cpu_open_plugin(const inlay_provider *provider, const inlay_host *host, const inlay_plugin **out_plugin,
                             inlay_diag *diag)
{
    static kit_exports exports;
    static kit_plugin plugin = { .version = INLAY_VERSION };
    inlay_status status;

    plugin.name = provider->name;
    status = kit_open(&plugin, &exports, host, out_plugin, diag);
    if (status != INLAY_OK)
        return status;
    exports.provider = *provider;
    exports.plugin.providers = &exports.provider;
    exports.plugin.provider_count = 1;
    return INLAY_OK;
}
