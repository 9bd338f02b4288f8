/* The provider onednn: convolutions and matrix multiplications on oneDNN, and the functions that are fused into
 * them. */
#define INLAY_NOTE_VERSION INLAY_VERSION
#include "inlay/kit_region.h"
#include "onednn/provider.h"
#include "simd/at_fork.h"
#include "simd/cpu.h"

static const inlay_option options[] = {
    { .name = "precision",
      .kind = INLAY_OPTION_ENUM,
      .default_value = "f32",
      .choices = "strict|f32|fast|reduced",
      .doc = "float arithmetic: strict, f32, fast = float products and sums; reduced = bfloat16 products with float "
             "sums where the CPU supports them, and functions that may lose NaN; set by the session option of the same "
             "name" },
    { .name = "reproducible",
      .kind = INLAY_OPTION_BOOL,
      .default_value = "0",
      .doc = "1 = no node, because oneDNN chooses its kernels by sizes; set by the session option of the same name" },
    { .name = "isa",
      .kind = INLAY_OPTION_ENUM,
      .default_value = "auto",
      .choices = CPU_ISA_CHOICES,
      .doc = CPU_ISA_DOC },
};

static bool has_bf16(void)
{
    const unsigned wanted = (unsigned)dnnl_cpu_isa_avx512_core_bf16;

    return ((unsigned)dnnl_get_effective_cpu_isa() & wanted) == wanted;
}

static inlay_status create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    onednn_state *state = calloc(1, sizeof *state);
    inlay_status status = INLAY_OK;
    bool reduced = false;

    (void)ctx;
    *out_state = NULL;
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for provider onednn");
    for (uint32_t i = 0; status == INLAY_OK && i < args->option_count; i++) {
        const inlay_option_value *value = INLAY_AT(inlay_option_value, args->options, args->option_stride, i);

        if (strcmp(value->name, "reproducible") == 0)
            state->reproducible = value->i != 0;
        else if (value->s != NULL && strcmp(value->name, "precision") == 0)
            reduced = strcmp(value->s, "reduced") == 0;
        else if (value->s != NULL && strcmp(value->name, "isa") == 0)
            status = cpu_limit_isa(value->s, diag);
    }
    state->host = host;
    state->team = host->extension(host->ctx, INLAY_EXT_TEAM);
    if (state->team != NULL && !INLAY_HAS(state->team, gather))
        state->team = NULL;
    if (status == INLAY_OK && dnnl_engine_create(&state->engine, dnnl_cpu, 0) != dnnl_success)
        status =
            inlay_fail(diag, INLAY_UNSUPPORTED, "no oneDNN: libdnnl is not installed, or does not support this CPU");
    if (status != INLAY_OK) {
        free(state);
        return status;
    }
    state->reduced = reduced && has_bf16();
    *out_state = state;
    return INLAY_OK;
}

static void destroy(void *state_)
{
    onednn_state *state = state_;

    (void)dnnl_engine_destroy(state->engine);
    free(state);
}

static pthread_mutex_t trimming = PTHREAD_MUTEX_INITIALIZER; /* no thread sees the capacity 0 of another one */

static __attribute__((constructor)) void guard_lock(void)
{
    lock_at_fork(&trimming);
}

/* The library keeps primitives, with their code, for later ones of the same sizes: up to 1024 for the whole process.
 * All of these are dropped, also primitives that other sessions have used; those in use stay alive. */
static inlay_status control(void *state, inlay_control_args *args, inlay_diag *diag)
{
    dnnl_status_t status;
    int capacity;

    (void)state;
    if (args->action != INLAY_CONTROL_TRIM)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "provider onednn can only release unused memory");
    (void)pthread_mutex_lock(&trimming);
    status = dnnl_get_primitive_cache_capacity(&capacity);
    if (status == dnnl_success && capacity > 0) {
        status = dnnl_set_primitive_cache_capacity(0);
        status = dnnl_set_primitive_cache_capacity(capacity) != dnnl_success ? dnnl_runtime_error : status;
    }
    (void)pthread_mutex_unlock(&trimming);
    return status == dnnl_success ? INLAY_OK : onednn_fail(status, "the cache of primitives", diag);
}

static const void *extension(void *state, const char *name)
{
    static const inlay_ext_control controls = { .struct_size = sizeof controls, .control = control };

    (void)state;
    return strcmp(name, INLAY_EXT_CONTROL) == 0 ? &controls : NULL;
}

static const inlay_provider provider = {
    .struct_size = sizeof provider,
    .name = "onednn",
    .description = "convolutions and matrix multiplications on oneDNN, float and bfloat16",
    .device_kind = INLAY_DEVICE_CPU,
    .flags = INLAY_PROVIDER_SERIAL_EXECUTE | INLAY_PROVIDER_REFERENCE_CORE,
    .options = options,
    .option_count = KIT_COUNT(options),
    .option_stride = sizeof options[0],
    .create = create,
    .destroy = destroy,
    .assess = onednn_assess,
    .cost = onednn_cost,
    .compile = onednn_compile,
    .release_compiled = onednn_release_compiled,
    .specialize = onednn_specialize,
    .release_instance = onednn_release_instance,
    .execute = onednn_execute,
    .extension = extension,
};
static const kit_plugin plugin = { .name = "onednn", .version = INLAY_VERSION };

KIT_PROVIDER_PLUGIN(plugin, "onednn", provider, "onednn")
