/* The provider ort_ep: nodes and regions of an ONNX Runtime execution provider in a separate library. */
#define INLAY_NOTE_VERSION INLAY_VERSION
#include "inlay/kit_region.h"
#include "ort_ep/provider.h"
#include <ctype.h>
#include <stdio.h>
#include <sys/stat.h>

/* Indexes of the options that are not texts. */
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
      .kind = INLAY_OPTION_STRING,
      .default_value = "0",
      .doc = "number of the device, from 0, among those that the library's execution providers support; or numbers of "
             "several devices of one execution provider, separated by ','" },
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

/* The loggers of all libraries write to the log of the host; a process has one such log. */
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

/* What determines the nodes that a library compiles, besides its options: its version and file, and the devices. */
static void set_fingerprint(ep_state *state, const char *path)
{
    const ep_library *library = &state->library;
    const OrtEpFactory *factory = library->device->factory;
    const char *version = factory->GetVersion != NULL ? factory->GetVersion(factory) : NULL;
    struct stat file = { 0 };

    (void)stat(path, &file);
    (void)snprintf(state->fingerprint, sizeof state->fingerprint, "%.100s %.100s %.100s %lld %lld.%09ld", state->name,
                   library->device->vendor != NULL ? library->device->vendor : "", version != NULL ? version : "",
                   (long long)file.st_size, (long long)file.st_mtim.tv_sec, file.st_mtim.tv_nsec);
    for (size_t i = 0; i < library->used_count; i++) {
        const OrtHardwareDevice *device = library->hardware[i];
        const size_t at = strlen(state->fingerprint);

        (void)snprintf(state->fingerprint + at, sizeof state->fingerprint - at, " %d %x %x", device->type,
                       (unsigned)device->vendor_id, (unsigned)device->device_id);
    }
}

/* Writes a text of a fact; ';' would end the fact. */
static void put_text(FILE *facts, const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        (void)fputc(*c == ';' || *c == '\n' ? ',' : *c, facts);
}

/* Appends "; PREFIXKEY=VALUE" to a list of facts. value may be NULL. */
static void add_fact(FILE *facts, const char *prefix, const char *key, const char *value)
{
    (void)fputs(ftell(facts) > 0 ? "; " : "", facts);
    put_text(facts, prefix);
    put_text(facts, key);
    (void)fputc('=', facts);
    put_text(facts, value != NULL ? value : "");
}

/* Properties of the devices for listings: of the first one, and how many there are. */
static char *facts_of(const ep_state *state)
{
    static const char *const types[] = { "CPU", "GPU", "NPU" };
    const OrtEpDevice *device = state->library.device;
    const OrtHardwareDevice *hardware = device->device;
    OrtEpFactory *factory = device->factory;
    char *text = NULL, number[32];
    size_t bytes;
    FILE *facts = open_memstream(&text, &bytes);
    bool ok;

    if (facts == NULL)
        return NULL;
    add_fact(facts, "", "type", hardware->type < 3 ? types[hardware->type] : "other");
    add_fact(facts, "", "hardware_vendor", hardware->vendor);
    (void)snprintf(number, sizeof number, "%#x", (unsigned)hardware->vendor_id);
    add_fact(facts, "", "vendor_id", number);
    (void)snprintf(number, sizeof number, "%#x", (unsigned)hardware->device_id);
    add_fact(facts, "", "device_id", number);
    add_fact(facts, "", "vendor", device->vendor);
    add_fact(facts, "", "version", factory->GetVersion != NULL ? factory->GetVersion(factory) : NULL);
    (void)snprintf(number, sizeof number, "%u", state->library.device_count);
    add_fact(facts, "", "devices", number);
    for (size_t i = 0; i < device->metadata.count; i++)
        add_fact(facts, "metadata.", device->metadata.keys[i], device->metadata.values[i]);
    ok = ferror(facts) == 0;
    if (fclose(facts) == 0 && ok)
        return text;
    free(text);
    return NULL;
}

static void destroy(void *state_)
{
    ep_state *state = state_;

    ep_release(state, state->assessing);
    ep_operators_close(state);
    ep_memory_close(state);
    ep_library_close(state);
    ep_environment_close(state);
    ort_pairs_clear(&state->options.entries);
    ort_pairs_clear(&state->context_options.entries);
    (void)pthread_mutex_destroy(&state->lock);
    free(state->device);
    free(state->facts);
    free(state);
    ep_tensors_close();
}

static inlay_status create(void *ctx, const inlay_host *host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    const char *texts[KIT_COUNT(options)] = { NULL };
    bool makes_contexts = false;
    ep_state *state;
    inlay_status status;

    (void)ctx;
    *out_state = NULL;
    for (uint32_t i = 0; i < args->option_count && i < KIT_COUNT(options); i++) {
        const inlay_option_value *value = INLAY_AT(inlay_option_value, args->options, args->option_stride, i);

        texts[i] = value->s;
        makes_contexts = i == CONTEXT ? value->i != 0 : makes_contexts;
    }
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
    state->domain = args->first_domain;
    state->makes_contexts = makes_contexts;
    state->device = strdup(texts[DEVICE]);
    state->name = "ort_ep";
    if (the_logger.param == NULL) /* a plug-in gets one host */
        the_logger.param = (void *)(uintptr_t)host;
    state->logger = the_logger;
    ep_tables_open(host);
    ep_tensors_open();
    status = state->device != NULL ? add_pairs(&state->environment, "environment", "", texts[3], diag)
                                   : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for provider ort_ep");
    ep_environment_open(state);
    if (status == INLAY_OK) {
        const ep_state *before = ep_enter(state);
        OrtStatus *failed;

        status = ep_library_open(state, texts[0], texts[1], texts[DEVICE], diag);
        if (status == INLAY_OK)
            status = ep_operators_open(state, diag);
        if (status == INLAY_OK && (failed = ep_memory_open(state)) != NULL)
            status = ep_fail(state, "the memory of its device", failed, INLAY_UNSUPPORTED, diag);
        (void)ep_enter(before);
    }
    if (status == INLAY_OK)
        status = add_options(state, texts[2], diag);
    if (status == INLAY_OK) {
        set_fingerprint(state, texts[0]);
        state->facts = facts_of(state);
        if (state->facts == NULL)
            status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for provider ort_ep");
    }
    if (status != INLAY_OK) {
        destroy(state);
        return status;
    }
    *out_state = state;
    return INLAY_OK;
}

static inlay_status describe(void *state_, const inlay_describe_request *request, inlay_diag *diag)
{
    ep_state *state = state_;
    const OrtHardwareDevice *hardware = state->library.device->device;
    inlay_device_info *out = request->device;

    (void)diag;
    out->name = state->name;
    out->option = "device";
    out->value = state->device;
    out->facts = state->facts;
    out->kind = hardware->type == 1 ? INLAY_DEVICE_GPU : hardware->type == 2 ? INLAY_DEVICE_NPU : INLAY_DEVICE_OTHER;
    if (ep_memory_is_domain(state))
        INLAY_AT_OUT(inlay_domain_info, request->domains, request->domain_stride, 0)->name = state->domain_name;
    return INLAY_OK;
}

/* Of libraries that compute in the memory of a device. Others place no value there; so the default is host memory. */
static const inlay_domain_info domains[] = {
    { .name = "ort_ep.device", .alignment = 256 }, /* the alignment of tensors in ONNX Runtime */
};

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
    .domains = domains,
    .domain_count = KIT_COUNT(domains),
    .domain_stride = sizeof domains[0],
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
    .buffer_alloc = ep_buffer_alloc,
    .buffer_free = ep_buffer_free,
    .buffer_copy = ep_buffer_copy,
    .extension = ep_extension,
    .describe = describe,
};
static const kit_plugin plugin = { .name = "ort_ep", .version = INLAY_VERSION };

KIT_PROVIDER_PLUGIN(plugin, "ort_ep", provider, "ort_ep")
