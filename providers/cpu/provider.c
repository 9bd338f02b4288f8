/* Options, creation and the plugin table of the provider that compiles regions. */
#include "cpu/provider.h"
#include "inlay/check.h"
#include "inlay/execution.h"
#include "inlay/kit.h"
#include "cpu/choice/kernels.h"
#include "cpu/compile/compile.h"
#include "cpu/convolution/tiles.h"
#include "cpu/layout/moves.h"
#include "cpu/matrix/sgemm.h"
#include "cpu/quantized/bytes.h"
#include "cpu/quantized/quant.h"
#include "simd/cpu.h"
#include "cpu/sources.h"
#include "cpu/region/states.h"
#include "cpu/weights/nbits.h"

static const inlay_option options[] = {
    { .name = "winograd",
      .kind = INLAY_OPTION_BOOL,
      .default_value = "1",
      .doc = "1 = 3x3 convolutions may use Winograd's algorithm where it is faster and its error is bounded: below "
             "1e-5 of the largest result and below 16 times the error of a plain sum, measured with the layer's "
             "weights; parts of images that exceed the bound are computed as plain sums; and convolutions with large "
             "kernels may use the fast Fourier transform, likewise" },
    { .name = "pack_bytes",
      .kind = INLAY_OPTION_FLOAT,
      .default_value = "2",
      .doc = "limit of packed weights: up to 1000, a multiple of the model's weights, otherwise bytes; convolutions "
             "whose transformed weights (Winograd's algorithm, up to 4 times the weights) save the most time per byte "
             "are chosen first; inf = the fastest kernels; unset, the limit is at least 40 MiB more than the weights" },
    { .name = "precision",
      .kind = INLAY_OPTION_ENUM,
      .default_value = "f32",
      .choices = "strict|f32|fast|reduced",
      .doc = "float arithmetic: strict = plain sums, without Winograd's algorithm and FFT; f32 = bounded error for any "
             "finite "
             "input; fast = Winograd's algorithm without the bound; reduced = as "
             "f32, since these kernels multiply floats only; set by the session option of the same name" },
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
      .kind = INLAY_OPTION_ENUM,
      .default_value = "0",
      .choices = "0|1|cpu",
      .doc = "1 = one fixed kernel for each kind of convolution and matrix multiplication, regardless of sizes, "
             "measurements and number of rows; cpu = also kernels that compute the same bits on every x86-64 and arm64 "
             "CPU, in the whole process; set by the session option of the same name" },
    { .name = "isa",
      .kind = INLAY_OPTION_ENUM,
      .default_value = "auto",
      .choices = CPU_ISA_CHOICES,
      .doc = CPU_ISA_DOC },
    { .name = "kernel",
      .kind = INLAY_OPTION_ENUM,
      .default_value = "auto",
      .choices = "auto|tiles|winograd_4x4|winograd_2x2|depthwise|planes|rows|fft|groups|gemm|gemm_terms|packed|"
                 "packed_terms|packed_sparse|batched",
      .doc = "kernel of convolutions (tiles ... gemm) or matrix multiplications (packed ... batched), used wherever it "
             "applies; auto = the kernel expected, or measured, to be fastest" },
};

/* Applies the options `isa` and `reproducible`. Must run before the first query of the available kernels. */
static inlay_status limit_isa(const inlay_create_args *args, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    bool uniform = false;

    for (uint32_t i = 0; i < args->option_count && status == INLAY_OK; i++) {
        const inlay_option_value *value = INLAY_AT(inlay_option_value, args->options, args->option_stride, i);

        if (strcmp(value->name, "isa") == 0 && value->s != NULL)
            status = cpu_limit_isa(value->s, diag);
        uniform =
            uniform || (strcmp(value->name, "reproducible") == 0 && value->s != NULL && strcmp(value->s, "cpu") == 0);
    }
    return status == INLAY_OK && uniform ? cpu_use_uniform(diag) : status;
}

static void release(cpu_state *state)
{
    pack_registry_destroy(state->packed_for);
    free(state->scratch);
    free(state->regions);
    free(state);
}

static inlay_status create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    cpu_state *state = calloc(1, sizeof *state);
    inlay_status status = limit_isa(args, diag);

    (void)ctx;
    *out_state = NULL;
    if (status != INLAY_OK) {
        free(state);
        return status;
    }
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for provider cpu");
    state->scratch = calloc(1, sizeof *state->scratch);
    state->regions = calloc(1, sizeof(inlay_compiled *));
    state->packed_for = pack_registry_create();
    if (state->scratch == NULL || state->regions == NULL || state->packed_for == NULL) {
        release(state);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for provider cpu");
    }
    INLAY_CHECK(host != NULL && host->extension != NULL);
    state->host = host;
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
    state->sgemm = sgemm_kernel_best();
    state->tiles = tiles_of_cpu();
    state->moves = moves_of_cpu();
    state->bytes = byte_set_of_cpu();
    state->nbits = nbits_kernel_best();
    cpu_read_options(state, args);
    *out_state = state;
    return INLAY_OK;
}

static void destroy(void *state_)
{
    cpu_state *state = state_;

    if (state == NULL)
        return;
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
                                               .packed_products = INLAY_WEIGHTS_ANY | INLAY_WEIGHTS_HALVES |
                                                                  INLAY_WEIGHTS_TURNED };

    static const inlay_ext_control controls = { .struct_size = sizeof controls, .control = cpu_control };

    (void)state_;
    if (strcmp(name, INLAY_EXT_CONTROL) == 0)
        return &controls;
    if (strcmp(name, INLAY_EXT_WEIGHTS) == 0)
        return &weights;
    if (strcmp(name, INLAY_EXT_BRANCHES) == 0)
        return &branches;
    if (strcmp(name, INLAY_EXT_STATES) == 0)
        return &states;
    if (strcmp(name, INLAY_EXT_KERNELS) == 0)
        return &kernels;
    if (strcmp(name, INLAY_EXT_SOURCES) == 0)
        return kernel_sources();
    if (strcmp(name, INLAY_EXT_INTEGERS) == 0 && byte_set_of_cpu() != NULL)
        return &fast;
    return NULL;
}

inlay_provider cpu_provider(void)
{
    return (inlay_provider){
        .struct_size = sizeof(inlay_provider),
        .name = "cpu",
        .description = "regions of float and integer operators on built-in kernels: packed weights, fused epilogues",
        .device_kind = INLAY_DEVICE_CPU,
        .flags = INLAY_PROVIDER_REFERENCE_CORE,
        .options = options,
        .option_count = KIT_COUNT(options),
        .option_stride = sizeof(inlay_option),
        .poll_ms = 1000,
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
