/* Options, creation and the plugin table of the providers that compile regions (cpu, onednn). */
#include "cpu/provider.h"
#include "inlay/check.h"
#include "cpu/choice/kernels.h"
#include "cpu/compile/compile.h"
#include "cpu/convolution/tiles.h"
#include "cpu/layout/moves.h"
#include "cpu/matrix/sgemm.h"
#include "cpu/product/product.h"
#include "cpu/quantized/bytes.h"
#include "cpu/quantized/quant.h"
#include "simd/cpu.h"
#include "cpu/sources.h"
#include "cpu/region/states.h"
#include "cpu/weights/nbits.h"
#include <stdio.h>

/* Options of both providers. The first two belong to a provider with a library, the last to one without. */
static const inlay_option options[] = {
    { .name = "own_loops",
      .kind = INLAY_OPTION_BOOL,
      .default_value = "0",
      .doc = "0 = convolutions, matrix multiplications and attention run only on oneDNN's kernels; 1 = also on the "
             "kernels of provider cpu, where they are expected to be faster" },
    { .name = "kernel",
      .kind = INLAY_OPTION_ENUM,
      .default_value = "auto",
      .choices = "auto|tiles|winograd_4x4|winograd_2x2|depthwise|planes|rows|groups|library|library_blocked|library_"
                 "winograd|gemm|packed|packed_sparse|inner_product|plain|batched|matmul",
      .doc = "kernel of convolutions (tiles ... gemm) or matrix multiplications (packed ... matmul), used wherever it "
             "applies; auto = the kernel expected, or measured, to be fastest" },
    { .name = "winograd",
      .kind = INLAY_OPTION_BOOL,
      .default_value = "1",
      .doc = "1 = 3x3 convolutions may use Winograd's algorithm where it is faster and its error is bounded: below "
             "1e-5 of the largest result and below 16 times the error of a plain sum, measured with the layer's "
             "weights; parts of images that exceed the bound are computed as plain sums" },
    { .name = "pack_price",
      .kind = INLAY_OPTION_INT,
      .default_value = "0",
      .max = 1000000,
      .doc = "microseconds per run that each additional MiB of transformed convolution weights must save; 0 = the "
             "fastest kernel, regardless of the size of its weights" },
    { .name = "precision",
      .kind = INLAY_OPTION_ENUM,
      .default_value = "f32",
      .choices = "strict|f32|fast|reduced",
      .doc = "float arithmetic: strict = plain sums, without Winograd's algorithm; f32 = bounded error for any finite "
             "input; fast = Winograd's algorithm without the bound; reduced = "
             "bfloat16 products with float sums where the CPU supports them; set by the session option of the same "
             "name" },
    { .name = "activations",
      .kind = INLAY_OPTION_ENUM,
      .default_value = "auto",
      .choices = "auto|exact|fine|byte",
      .doc =
          "activations of matrix multiplications with packed weights of 2, 4 and 8 bits: exact = floats; fine = 16-bit "
          "integers with an error of at most 2^-16 of the largest value in a block of 32; byte = 8-bit integers; auto "
          "= fine with precision fast or where the model requests 8 bits (accuracy_level 4), otherwise exact; with "
          "precision strict, and for rows with NaN or infinity, always exact" },
    { .name = "reproducible",
      .kind = INLAY_OPTION_BOOL,
      .default_value = "0",
      .doc = "1 = one fixed kernel for each kind of convolution and matrix multiplication, regardless of sizes, "
             "measurements and number of rows; set by the session option of the same name" },
    { .name = "isa",
      .kind = INLAY_OPTION_ENUM,
      .default_value = "auto",
      .choices = CPU_ISA_CHOICES,
      .doc = CPU_ISA_DOC },
    { .name = "kernel",
      .kind = INLAY_OPTION_ENUM,
      .default_value = "auto",
      .choices = "auto|tiles|winograd_4x4|winograd_2x2|depthwise|planes|rows|groups|gemm|packed|"
                 "packed_sparse|batched",
      .doc = "kernel of convolutions (tiles ... gemm) or matrix multiplications (packed ... batched), used wherever it "
             "applies; auto = the kernel expected, or measured, to be fastest" },
};

/* Applies the option `isa`. Must run before the first query of the available kernels. */
static inlay_status limit_isa(const inlay_create_args *args, inlay_diag *diag)
{
    for (uint32_t i = 0; i < args->option_count; i++) {
        const inlay_option_value *value = INLAY_AT(inlay_option_value, args->options, args->option_stride, i);

        if (strcmp(value->name, "isa") == 0 && value->s != NULL)
            return cpu_limit_isa(value->s, diag);
    }
    return INLAY_OK;
}

/* A provider with a library uses only the library's kernels, unless option own_loops is set. The built-in kernels in
 * plain C are slower than the library's oldest ones, so without AVX2 the option is ignored. */
static bool uses_builtin_kernels(const cpu_provider_config *config, const inlay_create_args *args)
{
    bool own = config->library == NULL;

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

/* Warns about options that have no effect because their kernels belong to provider cpu. */
static void warn_ignored_options(const cpu_provider_config *config, const inlay_host *host,
                                 const inlay_create_args *args)
{
    static const char *const ignored[] = { "winograd", "activations" };

    for (uint32_t i = 0; i < args->option_count; i++) {
        const inlay_option_value *value = INLAY_AT(inlay_option_value, args->options, args->option_stride, i);
        char text[200];

        for (size_t k = 0; k < KIT_COUNT(ignored); k++) {
            if (value->is_set == 0 || strcmp(value->name, ignored[k]) != 0)
                continue;
            (void)snprintf(text, sizeof text,
                           "option %s.%s has no effect without %s.own_loops 1: use provider cpu (cpu.%s)", config->name,
                           value->name, config->name, value->name);
            host->log(host->ctx, INLAY_LOG_WARNING, text);
        }
    }
}

/* Frees everything except the engine. */
static void release(cpu_state *state)
{
    pack_registry_destroy(state->packed_for);
    free(state->scratch);
    free(state);
}

static inlay_status create(void *config_, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    const cpu_provider_config *config = config_;
    cpu_state *state = calloc(1, sizeof *state);
    bool reduced = false;
    kit_refusal why = { 0, "", "" };
    inlay_status status = limit_isa(args, diag);

    *out_state = NULL;
    library_in_use = config->library != NULL ? config->library : &library_none;
    if (status != INLAY_OK) {
        free(state);
        return status;
    }
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for provider %s", config->name);
    state->scratch = calloc(1, sizeof *state->scratch);
    state->packed_for = pack_registry_create();
    if (state->scratch == NULL || state->packed_for == NULL) {
        release(state);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for provider %s", config->name);
    }
    INLAY_CHECK(host != NULL && host->extension != NULL);
    state->host = host;
    state->alone = config->library == NULL;
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
    if (uses_builtin_kernels(config, args)) {
        state->tiles = tiles_of_cpu();
        state->moves = moves_of_cpu();
        state->bytes = byte_set_of_cpu();
        state->sgemm = state->attend = sgemm_kernel_best();
        state->nbits = nbits_kernel_best();
    } else {
        state->library_only = true;
        warn_ignored_options(config, host, args);
        state->bytes = q_library_has_products(&why) ? NULL : byte_set_of_cpu(); /* the library has no int8 GEMM */
    }
    cpu_read_options(state, args, &reduced);
    state->bf16 = reduced && cpu_has_bf16();
    if (state->bf16)
        state->sgemm = NULL; /* the built-in GEMM supports only floats */
    if (config->library != NULL) {
        library_status code = library_engine_create(&state->engine);

        if (code != LIBRARY_SUCCESS) {
            release(state);
            return inlay_fail(diag, INLAY_UNSUPPORTED,
                              "no oneDNN: libdnnl is not installed, or does not support this CPU (status %d)",
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
    static const inlay_ext_states states = { .struct_size = sizeof states,
                                             .appends = cpu_state_appends,
                                             .reads = cpu_state_reads };
    static const inlay_ext_branches branches = { .struct_size = sizeof branches, .may = cpu_may_branch };
    static const inlay_ext_weights weights = { .struct_size = sizeof weights,
                                               .packed_products = INLAY_WEIGHTS_ANY | INLAY_WEIGHTS_HALVES };
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
        return state->library_only ? NULL : kernel_sources();
    if (strcmp(name, INLAY_EXT_INTEGERS) == 0 && (q_library_has_products(&why) || byte_set_of_cpu() != NULL))
        return &fast;
    return NULL;
}

inlay_provider cpu_provider(const cpu_provider_config *config)
{
    const uint32_t of_library = 2, count = KIT_COUNT(options) - (config->library != NULL ? 1 : of_library);

    INLAY_CHECK(config->name != NULL &&
                strcmp(options[of_library - 1].name, options[KIT_COUNT(options) - 1].name) == 0);
    return (inlay_provider){
        .struct_size = sizeof(inlay_provider),
        .name = config->name,
        .description = config->description,
        .device_kind = INLAY_DEVICE_CPU,
        .flags = INLAY_PROVIDER_REFERENCE_CORE,
        .options = config->library != NULL ? options : options + of_library,
        .option_count = count,
        .option_stride = sizeof(inlay_option),
        .poll_ms = 1000,
        .ctx = (void *)(uintptr_t)config,
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

    INLAY_CHECK(provider->create != NULL && provider->destroy != NULL);
    plugin.name = provider->name;
    status = kit_open(&plugin, &exports, host, out_plugin, diag);
    if (status != INLAY_OK)
        return status;
    exports.provider = *provider;
    exports.plugin.providers = &exports.provider;
    exports.plugin.provider_count = 1;
    return INLAY_OK;
}
