/* The provider ort_ep: nodes and regions of an ONNX Runtime execution provider in a separate library. */
#define INLAY_NOTE_VERSION INLAY_VERSION
#include "inlay/kit_region.h"
#include "ort_ep/provider.h"
#include <ctype.h>
#include <stdio.h>
#include <sys/stat.h>

/* The options, by index; those that are not texts. */
enum { CONTEXT = 4, DEVICE };
static const inlay_option options[] = {
    { .name = "library",
      .kind = INLAY_OPTION_STRING,
      .doc = "path of the library of an execution provider for ONNX Runtime 1.23 or later; unset = no provider" },
    { .name = "ep",
      .kind = INLAY_OPTION_STRING,
      .doc = "name of an execution provider of the library; unset = the first one that supports a device" },
    { .name = "options",
      .kind = INLAY_OPTION_STRING,
      .doc = "options of the execution provider: KEY=VALUE, separated by ';'" },
    { .name = "environment",
      .kind = INLAY_OPTION_STRING,
      .doc = "entries of ONNX Runtime's environment that the library may query: KEY=VALUE, separated by ';'" },
    { .name = "context",
      .kind = INLAY_OPTION_BOOL,
      .default_value = "false",
      .doc = "keep what the library compiles in the cache folder, as EPContext nodes, if it supports these" },
    { .name = "device",
      .kind = INLAY_OPTION_INT,
      .default_value = "0",
      .max = 255,
      .doc = "number of the device, from 0, among those that the library's execution providers support" },
};

static void log_line(void *param, OrtLoggingLevel severity, const char *category, const char *logid,
                     const char *code_location, const char *message)
{
    static const uint32_t levels[] = { INLAY_LOG_DEBUG, INLAY_LOG_DEBUG, INLAY_LOG_WARNING, INLAY_LOG_ERROR,
                                       INLAY_LOG_ERROR };
    const inlay_host *host = param;
    char text[1100];

    (void)category, (void)logid, (void)code_location;
    (void)snprintf(text, sizeof text, "execution provider: %.1000s", message);
    host->log(host->ctx, severity >= 0 && severity <= ORT_LOGGING_LEVEL_FATAL ? levels[severity] : INLAY_LOG_ERROR,
              text);
}

/* The loggers of all libraries end in the log of the host, of which a process has one. */
static OrtLogger the_logger = { .fn = log_line, .level = ORT_LOGGING_LEVEL_INFO, .id = "inlay" };

const OrtLogger *ort_default_logger(void)
{
    return &the_logger;
}

const inlay_host *ep_host(void)
{
    return the_logger.param;
}

/* Adds the pairs of a text KEY=VALUE;... to a list, with a prefix before each key. */
static inlay_status add_pairs(OrtKeyValuePairs *pairs, const char *option, const char *prefix, const char *text,
                              inlay_diag *diag)
{
    while (text != NULL && text[0] != '\0') {
        const size_t bytes = strcspn(text, ";");
        const char *equals = memchr(text, '=', bytes);
        char key[256], value[1024];

        if (equals == NULL)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option %s: '%.*s' is not KEY=VALUE", option, (int)bytes,
                              text);
        (void)snprintf(key, sizeof key, "%s%.*s", prefix, (int)(equals - text), text);
        (void)snprintf(value, sizeof value, "%.*s", (int)(bytes - (size_t)(equals + 1 - text)), equals + 1);
        if (!ort_pairs_set(pairs, key, value))
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for options");
        text += bytes + (text[bytes] == ';' ? 1 : 0);
    }
    return INLAY_OK;
}

/* Adds options as ONNX Runtime passes them to execution providers: config entries "ep.NAME.KEY", NAME in lower case. */
static inlay_status add_options(ep_state *state, const char *text, inlay_diag *diag)
{
    OrtKeyValuePairs *context = &state->context_options.entries;
    inlay_status status;
    char prefix[128];

    (void)snprintf(prefix, sizeof prefix, "ep.%.100s.", state->name);
    for (char *c = prefix; *c != '\0'; c++)
        *c = (char)tolower((unsigned char)*c);
    status = add_pairs(&state->options.entries, "options", prefix, text, diag);
    if (status == INLAY_OK &&
        (!ort_pairs_copy(context, &state->options.entries) || !ort_pairs_set(context, "ep.context_enable", "1") ||
         !ort_pairs_set(context, "ep.context_embed_mode", "1")))
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for options");
    return status;
}

/* What determines the nodes that a library compiles, besides its options: its version and file, and the device. */
static void set_fingerprint(ep_state *state, const char *path)
{
    const OrtEpDevice *device = state->library.device;
    const OrtEpFactory *factory = device->factory;
    const char *version = factory->GetVersion != NULL ? factory->GetVersion(factory) : NULL;
    struct stat file = { 0 };

    (void)stat(path, &file);
    (void)snprintf(state->fingerprint, sizeof state->fingerprint, "%.100s %.100s %.100s %d %x %x %lld %lld.%09ld",
                   state->name, device->vendor != NULL ? device->vendor : "", version != NULL ? version : "",
                   device->device->type, (unsigned)device->device->vendor_id, (unsigned)device->device->device_id,
                   (long long)file.st_size, (long long)file.st_mtim.tv_sec, file.st_mtim.tv_nsec);
}

/* The environment: ONNX Runtime has one for a process. Here each library has its own, and the function that returns it
 * is not told which library asks: during a call of a library it is that one, and on a library's own threads the one
 * that was opened last. */
static _Thread_local const ep_state *calling;
static struct {
    pthread_mutex_t lock;
    OrtKeyValuePairs entries;
} last_environment = { .lock = PTHREAD_MUTEX_INITIALIZER };

const ep_state *ep_enter(const ep_state *state)
{
    const ep_state *before = calling;

    calling = state;
    return before;
}

static inlay_status set_environment(ep_state *state, const char *text, inlay_diag *diag)
{
    inlay_status status = add_pairs(&state->environment, "environment", "", text, diag);

    if (status != INLAY_OK)
        return status;
    (void)pthread_mutex_lock(&last_environment.lock);
    ort_pairs_clear(&last_environment.entries);
    if (!ort_pairs_copy(&last_environment.entries, &state->environment))
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for options");
    (void)pthread_mutex_unlock(&last_environment.lock);
    return status;
}

OrtStatus *ort_GetEnvConfigEntries(OrtKeyValuePairs **config_entries)
{
    bool ok;

    ORT_NEED(config_entries);
    *config_entries = calloc(1, sizeof **config_entries);
    (void)pthread_mutex_lock(&last_environment.lock);
    ok = *config_entries != NULL &&
         ort_pairs_copy(*config_entries, calling != NULL ? &calling->environment : &last_environment.entries);
    (void)pthread_mutex_unlock(&last_environment.lock);
    if (ok)
        return NULL;
    ort_ReleaseKeyValuePairs(*config_entries);
    *config_entries = NULL;
    return ort_no_memory();
}

static void destroy(void *state_)
{
    ep_state *state = state_;

    ep_release(state, state->assessing);
    ep_operators_close(state);
    ep_library_close(state);
    ort_pairs_clear(&state->options.entries);
    ort_pairs_clear(&state->context_options.entries);
    ort_pairs_clear(&state->environment);
    (void)pthread_mutex_destroy(&state->lock);
    free(state);
    ep_tensors_close();
}

static inlay_status create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    const char *texts[KIT_COUNT(options)] = { NULL };
    uint32_t device = 0;
    char number[16];
    bool makes_contexts = false;
    ep_state *state;
    inlay_status status;

    (void)ctx;
    *out_state = NULL;
    for (uint32_t i = 0; i < args->option_count && i < KIT_COUNT(options); i++) {
        const inlay_option_value *value = INLAY_AT(inlay_option_value, args->options, args->option_stride, i);

        texts[i] = value->s;
        makes_contexts = i == CONTEXT ? value->i != 0 : makes_contexts;
        device = i == DEVICE ? (uint32_t)value->i : device;
    }
    (void)snprintf(number, sizeof number, "%u", device);
    texts[DEVICE] = number; /* prices are of one device */
    if (texts[0] == NULL || texts[0][0] == '\0')
        return inlay_fail(
            diag, INLAY_UNSUPPORTED,
            "no library of an execution provider is named; set its option library (--option ort_ep.library=FILE)");
    state = calloc(1, sizeof *state);
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for provider ort_ep");
    (void)pthread_mutex_init(&state->lock, NULL);
    state->prices = ep_prices_open(texts, KIT_COUNT(options));
    if (state->prices == NULL) {
        (void)pthread_mutex_destroy(&state->lock);
        free(state);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for provider ort_ep");
    }
    state->host = host;
    state->makes_contexts = makes_contexts;
    state->name = "ort_ep";
    if (the_logger.param == NULL) /* a plug-in gets one host */
        the_logger.param = (void *)(uintptr_t)host;
    state->logger = the_logger;
    ep_tables_open(host);
    ep_tensors_open();
    status = set_environment(state, texts[3], diag);
    if (status == INLAY_OK) {
        const ep_state *before = ep_enter(state);

        status = ep_library_open(state, texts[0], texts[1], device, diag);
        if (status == INLAY_OK)
            status = ep_operators_open(state, diag);
        (void)ep_enter(before);
    }
    if (status == INLAY_OK)
        status = add_options(state, texts[2], diag);
    if (status == INLAY_OK)
        set_fingerprint(state, texts[0]);
    if (status != INLAY_OK) {
        destroy(state);
        return status;
    }
    *out_state = state;
    return INLAY_OK;
}

/* Appends "; PREFIXKEY=VALUE" to a list of facts, if it fits. ';' would end the value. value may be NULL. */
static void add_fact(char *facts, size_t bytes, const char *prefix, const char *key, const char *value)
{
    const size_t at = strlen(facts);
    const int added =
        snprintf(facts + at, bytes - at, "%s%s%s=%s", at > 0 ? "; " : "", prefix, key, value != NULL ? value : "");

    if (added < 0 || (size_t)added >= bytes - at)
        facts[at] = '\0';
    else
        for (char *c = facts + at + (at > 0 ? 2 : 0); *c != '\0'; c++)
            *c = *c == ';' || *c == '\n' ? ',' : *c;
}

static inlay_status describe(void *state_, const inlay_describe_request *request, inlay_diag *diag)
{
    static const char *const types[] = { "CPU", "GPU", "NPU" };
    ep_state *state = state_;
    const OrtEpDevice *device = state->library.device;
    const OrtHardwareDevice *hardware = device->device;
    OrtEpFactory *factory = device->factory;
    inlay_device_info *out = request->device;
    char number[32];

    (void)diag;
    state->facts[0] = '\0';
#define FACT(key, value) add_fact(state->facts, sizeof state->facts, "", key, value)
    FACT("type", hardware->type < 3 ? types[hardware->type] : "other");
    FACT("hardware_vendor", hardware->vendor);
    (void)snprintf(number, sizeof number, "%#x", (unsigned)hardware->vendor_id);
    FACT("vendor_id", number);
    (void)snprintf(number, sizeof number, "%#x", (unsigned)hardware->device_id);
    FACT("device_id", number);
    FACT("vendor", device->vendor);
    FACT("version", factory->GetVersion != NULL ? factory->GetVersion(factory) : NULL);
    (void)snprintf(number, sizeof number, "%u", state->library.device_count);
    FACT("devices", number);
#undef FACT
    for (size_t i = 0; i < device->metadata.count; i++)
        add_fact(state->facts, sizeof state->facts, "metadata.", device->metadata.keys[i], device->metadata.values[i]);
    (void)snprintf(state->device, sizeof state->device, "%u", state->library.device_index);
    out->name = state->name;
    out->option = "device";
    out->value = state->device;
    out->facts = state->facts;
    out->kind = hardware->type == 1 ? INLAY_DEVICE_GPU : hardware->type == 2 ? INLAY_DEVICE_NPU : INLAY_DEVICE_OTHER;
    return INLAY_OK;
}

static const inlay_provider provider = {
    .struct_size = sizeof provider,
    .name = "ort_ep",
    .description =
        "an execution provider for ONNX Runtime, in the library that option library names; offers nothing without it",
    .device_kind = INLAY_DEVICE_OTHER,
    .flags = INLAY_PROVIDER_FLUSHES_DENORMALS, /* libraries do not say whether they keep them */
    .options = options,
    .option_count = KIT_COUNT(options),
    .option_stride = sizeof options[0],
    .create = create,
    .destroy = destroy,
    .assess = ep_assess,
    .cost = ep_cost,
    .compile = ep_compile,
    .release_compiled = ep_release_compiled,
    .specialize = ep_specialize,
    .release_instance = ep_release_instance,
    .execute = ep_execute,
    .fingerprint = ep_fingerprint,
    .cache_verdict = ep_cache_verdict,
    .extension = ep_extension,
    .describe = describe,
};
static const kit_plugin plugin = { .name = "ort_ep", .version = INLAY_VERSION };

KIT_PROVIDER_PLUGIN(plugin, "ort_ep", provider, "ort_ep")
