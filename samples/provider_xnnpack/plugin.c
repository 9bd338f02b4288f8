/* A provider that wraps XNNPACK, a library that compiles whole graphs: opening, offers, and the description. */
#define INLAY_NOTE_VERSION "1.0.0" /* of two versions in one folder, the host takes the higher one */
#include "provider.h"
#include <unistd.h>

static inlay_status create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    struct provider *provider = calloc(1, sizeof *provider);
    enum xnn_status status;

    (void)ctx;
    if (provider == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the provider");
    status = xnn_initialize(NULL);
    if (status != xnn_status_success) {
        free(provider);
        return inlay_fail(diag, status == xnn_status_out_of_memory ? INLAY_OUT_OF_MEMORY : INLAY_UNSUPPORTED,
                          "XNNPACK does not start on this CPU (status %d)", (int)status);
    }
    provider->host = host;
    provider->most_threads = INLAY_AT(inlay_option_value, args->options, args->option_stride, 0)->i;
    provider->process = getpid();
    (void)pthread_mutex_init(&provider->mutex, NULL);
    *out_state = provider;
    return INLAY_OK;
}

static void destroy(void *state)
{
    struct provider *provider = state;

    for (uint32_t i = 0; i <= MOST_THREADS; i++)
        if (provider->pools[i] != NULL && provider->process == getpid())
            pthreadpool_destroy(provider->pools[i]);
    (void)pthread_mutex_destroy(&provider->mutex);
    (void)xnn_deinitialize();
    free(provider);
}

static inlay_status assess(void *state, const inlay_assess_request *request, inlay_diag *diag)
{
    const kit_node like = { .host = ((struct provider *)state)->host, .provider = state };

    (void)diag;
    return kit_assess_each(&like, request->graph, request->candidates, request->sink, operator_fits, state);
}

static const inlay_option options[] = {
    { .name = "threads",
      .doc = "the most threads of a region, including the calling one; 0 = the limit of the run",
      .default_value = "1",
      .min = 0,
      .max = MOST_THREADS,
      .kind = INLAY_OPTION_INT },
};
static const inlay_provider provider = {
    .struct_size = sizeof provider,
    .name = "xnnpack",
    .description = "regions of float operators, compiled by XNNPACK",
    .device_kind = INLAY_DEVICE_CPU,
    .flags = INLAY_PROVIDER_SERIAL_EXECUTE | INLAY_PROVIDER_REFERENCE_CORE | INLAY_PROVIDER_FLUSHES_DENORMALS,
    .options = options,
    .option_count = KIT_COUNT(options),
    .option_stride = sizeof options[0],
    .create = create,
    .destroy = destroy,
    .assess = assess,
    .cost = price_offer,
    .cost_region = price_region,
    .compile = region_compile,
    .release_compiled = region_release_compiled,
    .specialize = region_specialize,
    .release_instance = region_release_instance,
    .execute = region_execute,
};
static const kit_plugin plugin = { .name = "xnnpack", .version = INLAY_NOTE_VERSION };

KIT_PROVIDER_PLUGIN(plugin, "xnnpack", provider, "xnnpack")
