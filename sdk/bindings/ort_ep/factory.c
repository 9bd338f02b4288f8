/* The library's two symbols, the factory of providers, and their options. */
#include "ort_ep.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EP_EXPORT __attribute__((visibility("default")))
/* The runtime stores options of providers as entries of the session's configuration: this, and the option. */
#define EP_OPTION_PREFIX "ep.inlayexecutionprovider."

struct factory {
    OrtEpFactory base; /* first: the runtime passes pointers to it */
    ep_runtime runtime;
};

OrtStatus *ep_fail(const ep_runtime *runtime, OrtErrorCode code, const char *what, const char *text)
{
    char message[1024];

    (void)snprintf(message, sizeof message, "%s: %s: %s", EP_NAME, what, text);
    return runtime->api->CreateStatus(code, message);
}

OrtStatus *ep_no_memory(const ep_runtime *runtime)
{
    return ep_fail(runtime, ORT_EP_FAIL, "inlay", "out of memory");
}

OrtStatus *ep_from(const ep_runtime *runtime, inlay_status status, const inlay_diag *diag)
{
    OrtErrorCode code = ORT_EP_FAIL;

    if (status == INLAY_OK)
        return NULL;
    if (status == INLAY_INVALID_ARGUMENT || status == INLAY_SHAPE_MISMATCH || status == INLAY_NOT_FOUND)
        code = ORT_INVALID_ARGUMENT;
    else if (status == INLAY_UNSUPPORTED)
        code = ORT_NOT_IMPLEMENTED;
    else if (status == INLAY_INVALID_MODEL)
        code = ORT_INVALID_GRAPH;
    return ep_fail(runtime, code, inlay_status_text(status), diag->text);
}

void ep_log(const struct ep *self, OrtLoggingLevel level, const char *text)
{
    const ep_runtime *runtime = &self->runtime;

    if (self->logger != NULL)
        runtime->api->ReleaseStatus(
            runtime->api->Logger_LogMessage(self->logger, level, text, __FILE__, __LINE__, __func__));
}

/* inlay_log_fn */
static void log_line(void *user, uint32_t level, const char *text)
{
    static const OrtLoggingLevel levels[] = { ORT_LOGGING_LEVEL_ERROR, ORT_LOGGING_LEVEL_WARNING,
                                              ORT_LOGGING_LEVEL_INFO, ORT_LOGGING_LEVEL_VERBOSE };

    ep_log(user, level < 4 ? levels[level] : ORT_LOGGING_LEVEL_VERBOSE, text);
}

static const char *name_of(const OrtEp *base)
{
    (void)base;
    return EP_NAME;
}

static void release_ep(OrtEpFactory *base, OrtEp *old)
{
    struct ep *self = (struct ep *)(void *)old;

    (void)base;
    if (self == NULL)
        return;
    ep_model_destroy(self->whole);
    inlay_options_destroy(self->options);
    ep_context_deinit(self);
    free(self);
}

/* Sets the options that the program gave to this provider. */
static OrtStatus *set_options(struct ep *self, const OrtSessionOptions *session)
{
    const ep_runtime *runtime = &self->runtime;
    const char *const *keys = NULL, *const *values = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    OrtKeyValuePairs *entries = NULL;
    inlay_status status = INLAY_OK;
    OrtStatus *failed;
    size_t count = 0;

    ORT_TRY(runtime->api->GetSessionOptionsConfigEntries(session, &entries));
    runtime->api->GetKeyValuePairs(entries, &keys, &values, &count);
    for (size_t i = 0; status == INLAY_OK && i < count; i++)
        if (strncmp(keys[i], EP_OPTION_PREFIX, strlen(EP_OPTION_PREFIX)) == 0)
            status = inlay_options_set(self->options, keys[i] + strlen(EP_OPTION_PREFIX), values[i], &diag);
    failed = ep_from(runtime, status, &diag);
    if (failed == NULL)
        failed = ep_context_options(self, entries);
    runtime->api->ReleaseKeyValuePairs(entries);
    return failed;
}

static OrtStatus *create_ep(OrtEpFactory *base, const OrtHardwareDevice *const *devices,
                            const OrtKeyValuePairs *const *metadata, size_t device_count,
                            const OrtSessionOptions *options, const OrtLogger *logger, OrtEp **out)
{
    const ep_runtime *runtime = &((struct factory *)(void *)base)->runtime;
    inlay_diag diag = INLAY_DIAG_INIT;
    struct ep *self = calloc(1, sizeof *self);
    inlay_status status;
    OrtStatus *failed;

    (void)devices;
    (void)metadata;
    (void)device_count;
    *out = NULL;
    if (self == NULL)
        return ep_no_memory(runtime);
    self->base = (OrtEp){ .ort_version_supported =
                              runtime->version >= EP_PROFILER_VERSION ? EP_PROFILER_VERSION : EP_API_VERSION,
                          .GetName = name_of,
                          .GetCapability = ep_get_capability,
                          .Compile = ep_compile,
                          .ReleaseNodeComputeInfos = ep_release_compute_infos,
                          .GetCompiledModelCompatibilityInfo = ep_context_compatibility,
                          .CreateProfiler = ep_create_profiler };
    self->runtime = *runtime;
    self->logger = logger;
    status = inlay_options_create(&self->options, &diag);
    if (status == INLAY_OK)
        status = inlay_options_load(self->options, NULL, &diag);
    if (status == INLAY_OK)
        status = inlay_options_load_environment(self->options, &diag);
    failed = ep_from(runtime, status, &diag);
    if (failed == NULL) {
        inlay_options_set_log(self->options, log_line, self);
        failed = set_options(self, options);
    }
    if (failed != NULL)
        release_ep(base, &self->base);
    else
        *out = &self->base;
    return failed;
}

static const char *factory_name(const OrtEpFactory *base)
{
    (void)base;
    return EP_NAME;
}

static const char *factory_vendor(const OrtEpFactory *base)
{
    (void)base;
    return "inlay";
}

static uint32_t factory_vendor_id(const OrtEpFactory *base)
{
    (void)base;
    return 0; /* no PCI vendor */
}

static const char *factory_version(const OrtEpFactory *base)
{
    (void)base;
    return INLAY_VERSION;
}

/* The CPU. Devices that inlay's providers open are chosen by the option `providers`. */
static OrtStatus *supported_devices(OrtEpFactory *base, const OrtHardwareDevice *const *devices, size_t device_count,
                                    OrtEpDevice **out, size_t most, size_t *out_count)
{
    const ep_runtime *runtime = &((struct factory *)(void *)base)->runtime;

    *out_count = 0;
    for (size_t i = 0; i < device_count && *out_count < most; i++)
        if (runtime->api->HardwareDevice_Type(devices[i]) == 0) {
            ORT_TRY(runtime->ep_api->CreateEpDevice(base, devices[i], NULL, NULL, &out[*out_count]));
            ++*out_count;
        }
    return NULL;
}

/* Tensors are in the runtime's own memory of the CPU. */
static OrtStatus *create_allocator(OrtEpFactory *base, const OrtMemoryInfo *info, const OrtKeyValuePairs *options,
                                   OrtAllocator **out)
{
    (void)base;
    (void)info;
    (void)options;
    *out = NULL;
    return NULL;
}

static void release_allocator(OrtEpFactory *base, OrtAllocator *allocator)
{
    (void)base;
    (void)allocator;
}

static OrtStatus *create_data_transfer(OrtEpFactory *base, OrtDataTransferImpl **out)
{
    (void)base;
    *out = NULL;
    return NULL;
}

static bool is_stream_aware(const OrtEpFactory *base)
{
    (void)base;
    return false;
}

static OrtStatus *create_stream(OrtEpFactory *base, const OrtMemoryDevice *device, const OrtKeyValuePairs *options,
                                OrtSyncStreamImpl **out)
{
    (void)base;
    (void)device;
    (void)options;
    *out = NULL;
    return NULL;
}

EP_EXPORT OrtStatus *CreateEpFactories(const char *registered_name, const OrtApiBase *ort_api_base,
                                       const OrtLogger *default_logger, OrtEpFactory **factories, size_t max_factories,
                                       size_t *num_factories);
EP_EXPORT OrtStatus *ReleaseEpFactory(OrtEpFactory *old);

OrtStatus *CreateEpFactories(const char *registered_name, const OrtApiBase *ort_api_base,
                             const OrtLogger *default_logger, OrtEpFactory **factories, size_t max_factories,
                             size_t *num_factories)
{
    const OrtApi *api = ort_api_base->GetApi(EP_API_VERSION);
    const char *version = ort_api_base->GetVersionString();
    ep_runtime runtime = { .api = api };
    struct factory *made;

    (void)registered_name;
    (void)default_logger;
    *num_factories = 0;
    if (api == NULL) /* older than 1.23, which has no providers of this kind; it has printed a message */
        return NULL;
    runtime.ep_api = api->GetEpApi();
    runtime.version = EP_API_VERSION;
    if (strncmp(version, "1.", 2) == 0)
        runtime.version = (uint32_t)strtoul(version + 2, NULL, 10);
    if (max_factories == 0)
        return ep_fail(&runtime, ORT_INVALID_ARGUMENT, "max_factories", "there is no room for a factory");
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return ep_no_memory(&runtime);
    made->runtime = runtime;
    made->base = (OrtEpFactory){ .ort_version_supported = EP_API_VERSION,
                                 .GetName = factory_name,
                                 .GetVendor = factory_vendor,
                                 .GetSupportedDevices = supported_devices,
                                 .CreateEp = create_ep,
                                 .ReleaseEp = release_ep,
                                 .GetVendorId = factory_vendor_id,
                                 .GetVersion = factory_version,
                                 .ValidateCompiledModelCompatibilityInfo = ep_context_validate,
                                 .CreateAllocator = create_allocator,
                                 .ReleaseAllocator = release_allocator,
                                 .CreateDataTransfer = create_data_transfer,
                                 .IsStreamAware = is_stream_aware,
                                 .CreateSyncStreamForDevice = create_stream };
    factories[0] = &made->base;
    *num_factories = 1;
    return NULL;
}

OrtStatus *ReleaseEpFactory(OrtEpFactory *old)
{
    free(old);
    return NULL;
}
