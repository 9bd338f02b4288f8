/* Libraries of plug-in execution providers: the devices of those that a program registers, and sessions on them.
 *
 * inlay's provider ort_ep opens such libraries, each device of a library as a provider ort_ep#WORD of its own. A
 * library is registered by opening sessions of a small model, which know the devices; inlay tries the library in
 * another process first, so that one that crashes fails here. */
#include "wire.h"
#include "inlay/check.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct ep_library {
    struct ep_library *next;
    char *name, *path;           /* the name it was registered with; its file */
    char *environment;           /* the environment's entries; NULL: none */
    OrtHardwareDevice *hardware; /* [count] */
    OrtEpDevice *devices;        /* [count] the index is the value of option `device` */
    uint32_t count;
    bool is_opening; /* by another thread: it has the name, and no devices yet */
} ep_library;

static struct {
    pthread_mutex_t lock;
    ep_library *libraries;    /* in the order of registration */
    const OrtEpDevice **list; /* [count] for GetEpDevices: the CPU, and the devices of the libraries */
    size_t count;
} registry = { .lock = PTHREAD_MUTEX_INITIALIZER };

static OrtEpDevice cpu_device;

static void make_cpu_device(void)
{
    static char version_key[] = "version", version[] = ORT_VERSION;
    static char *keys[] = { version_key }, *values[] = { version };

    cpu_device = (OrtEpDevice){ .device = ort_cpu(),
                                .name = "CPUExecutionProvider",
                                .vendor = "inlay",
                                .metadata = { .keys = keys, .values = values, .count = 1 },
                                .memory = &ort_cpu_memory };
}

const OrtEpDevice *ort_cpu_device(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, make_cpu_device);
    return &cpu_device;
}

/* Facts of a device are "KEY=VALUE; ...". */
static OrtStatus *read_facts(const char *facts, OrtKeyValuePairs *out)
{
    char *copy = strdup(facts), *rest = copy, *fact;
    bool ok = copy != NULL;

    while (ok && (fact = strsep(&rest, ";")) != NULL) {
        char *equals = strchr(fact, '=');

        if (equals == NULL)
            continue;
        *equals = '\0';
        ok = ort_pairs_set(out, fact + strspn(fact, " "), equals + 1);
    }
    free(copy);
    return ok ? NULL : ort_no_memory();
}

static const char *fact_of(const OrtKeyValuePairs *facts, const char *key)
{
    const char *value = ort_pairs_get(facts, key);

    return value != NULL ? value : "";
}

/* Moves the library's own metadata, and its version, to a device. */
static bool set_metadata(OrtEpDevice *device, const OrtKeyValuePairs *facts)
{
    static const char prefix[] = "metadata.";
    bool ok = ort_pairs_set(&device->metadata, "version", fact_of(facts, "version"));

    for (size_t i = 0; ok && i < facts->count; i++)
        if (strncmp(facts->keys[i], prefix, sizeof prefix - 1) == 0)
            ok = ort_pairs_set(&device->metadata, facts->keys[i] + sizeof prefix - 1, facts->values[i]);
    return ok;
}

static void release_device(OrtEpDevice *device, OrtHardwareDevice *hardware)
{
    ort_pairs_clear(&device->metadata);
    free((char *)(uintptr_t)device->name);
    free((char *)(uintptr_t)device->vendor);
    free((char *)(uintptr_t)hardware->vendor);
}

static OrtStatus *add_device(ep_library *library, const char *name, const OrtKeyValuePairs *facts)
{
    static const char *const types[] = { "CPU", "GPU", "NPU" };
    OrtHardwareDevice *hardware;
    OrtEpDevice *device;

    if (!ORT_GROW(library->hardware, library->count) || !ORT_GROW(library->devices, library->count))
        return ort_no_memory();
    hardware = &library->hardware[library->count];
    device = &library->devices[library->count];
    *hardware = (OrtHardwareDevice){ .vendor_id = (uint32_t)strtoul(fact_of(facts, "vendor_id"), NULL, 0),
                                     .device_id = (uint32_t)strtoul(fact_of(facts, "device_id"), NULL, 0),
                                     .vendor = strdup(fact_of(facts, "hardware_vendor")) };
    for (int type = 0; type < 3; type++)
        if (strcmp(types[type], fact_of(facts, "type")) == 0)
            hardware->type = type;
    *device = (OrtEpDevice){ .name = strdup(name), .vendor = strdup(fact_of(facts, "vendor")) };
    if (device->name == NULL || device->vendor == NULL || hardware->vendor == NULL || !set_metadata(device, facts)) {
        release_device(device, hardware);
        return ort_no_memory();
    }
    library->count++;
    return NULL;
}

static void release_library(ep_library *library)
{
    for (uint32_t i = 0; i < library->count; i++)
        release_device(&library->devices[i], &library->hardware[i]);
    free(library->hardware);
    free(library->devices);
    free(library->name);
    free(library->path);
    free(library->environment);
    free(library);
}

/* The name of the provider for a device: letters and digits of the registered name, and the device's number. */
static void provider_of(const ep_library *library, uint32_t device, char out[160])
{
    char word[100];
    size_t bytes = 0;

    for (const char *c = library->name; *c != '\0' && bytes + 1 < sizeof word; c++)
        word[bytes++] = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ? *c : '_';
    word[bytes] = '\0';
    (void)snprintf(out, 160, device == 0 ? ORT_EP_PROVIDER "#%s" : ORT_EP_PROVIDER "#%s_%u", word, device);
}

/* y = x */
static void write_identity(ort_writer *model)
{
    static const char *const names[] = { "x", "y" };
    static const uint32_t fields[] = { GRAPH_INPUT, GRAPH_OUTPUT };
    const int64_t dim = 1;
    ort_writer graph = { 0 }, node = { 0 }, opset = { 0 };
    OrtTypeInfo *type = ort_type_new(INLAY_KIND_TENSOR, ort_shape_new(1, true, 1, &dim, NULL));

    model->failed = type == NULL;
    ort_put_text(&node, NODE_INPUT, names[0]);
    ort_put_text(&node, NODE_OUTPUT, names[1]);
    ort_put_text(&node, NODE_OPERATOR, "Identity");
    ort_put_message(&graph, GRAPH_NODE, &node);
    ort_put_text(&graph, GRAPH_NAME, "identity");
    for (int i = 0; type != NULL && i < 2; i++) {
        ort_writer value = { 0 };

        ort_put_text(&value, 1, names[i]);
        ort_put_type(&value, 2, type);
        ort_put_message(&graph, fields[i], &value);
    }
    ort_put_number(&opset, OPSET_VERSION, 13);
    ort_put_number(model, MODEL_IR_VERSION, 8);
    ort_put_message(model, MODEL_GRAPH, &graph);
    ort_put_message(model, MODEL_OPSET, &opset);
    ort_ReleaseTypeInfo(type);
}

/* Adds "KEY=VALUE" to the text of an option, where ';' separates the pairs. */
static OrtStatus *add_pair(char **text, const char *key, const char *value)
{
    char *longer;

    if (strpbrk(key, "=;") != NULL || strchr(value, ';') != NULL)
        return ort_fail(ORT_INVALID_ARGUMENT,
                        "%.60s=%.60s cannot be passed to the execution provider: inlay separates options by ';'", key,
                        value);
    if (asprintf(&longer, "%s%s%s=%s", *text != NULL ? *text : "", *text != NULL ? ";" : "", key, value) < 0)
        return ort_no_memory();
    free(*text);
    *text = longer;
    return NULL;
}

/* Pairs as text; NULL: none. */
static OrtStatus *text_of(const OrtKeyValuePairs *pairs, char **out)
{
    *out = NULL;
    for (size_t i = 0; i < pairs->count; i++)
        ORT_TRY(add_pair(out, pairs->keys[i], pairs->values[i]));
    return NULL;
}

static inlay_status open_session(const ep_library *library, uint32_t device, const ort_writer *model,
                                 inlay_session **out, inlay_diag *diag)
{
    inlay_options *options = NULL;
    char provider[160], text[200], number[16];
    inlay_status status = inlay_options_create(&options, diag);

    provider_of(library, device, provider);
    if (status == INLAY_OK)
        status = inlay_options_load(options, NULL, diag);
    if (status == INLAY_OK)
        status = inlay_options_load_environment(options, diag);
    (void)snprintf(text, sizeof text, "%s,reference", provider);
    if (status == INLAY_OK)
        status = inlay_options_set(options, "providers", text, diag);
    (void)snprintf(text, sizeof text, "%s.library", provider);
    if (status == INLAY_OK)
        status = inlay_options_set(options, text, library->path, diag);
    (void)snprintf(text, sizeof text, "%s.device", provider);
    (void)snprintf(number, sizeof number, "%u", device);
    if (status == INLAY_OK)
        status = inlay_options_set(options, text, number, diag);
    (void)snprintf(text, sizeof text, "%s.environment", provider);
    if (status == INLAY_OK && library->environment != NULL)
        status = inlay_options_set(options, text, library->environment, diag);
    if (status == INLAY_OK)
        status = inlay_session_create_from_bytes(model->data, model->count, options, out, diag);
    inlay_options_destroy(options);
    return status;
}

/* Adds the device of that number. *out_count: how many the library supports. */
static OrtStatus *find_device(ep_library *library, uint32_t number, const ort_writer *model, uint32_t *out_count)
{
    inlay_session_provider_info info = { .struct_size = sizeof info };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;
    OrtKeyValuePairs facts = { 0 };
    OrtStatus *failed = NULL;
    inlay_status status;

    status = open_session(library, number, model, &session, &diag);
    if (status != INLAY_OK)
        return ort_fail(ORT_FAIL, "RegisterExecutionProviderLibrary: %s: %s", library->name, diag.text);
    if (inlay_session_provider(session, 0, &info) != INLAY_OK || info.device_facts == NULL)
        failed = ort_fail(ORT_FAIL, "RegisterExecutionProviderLibrary: inlay's provider " ORT_EP_PROVIDER
                                    " is older than this library; install both from one release");
    else
        failed = read_facts(info.device_facts, &facts);
    if (failed == NULL)
        failed = add_device(library, info.device, &facts);
    *out_count = (uint32_t)strtoul(fact_of(&facts, "devices"), NULL, 10);
    ort_pairs_clear(&facts);
    inlay_session_destroy(session);
    return failed;
}

/* The file of a library: a relative path is one from the working directory or, as in ONNX Runtime, from the folder of
 * this library. */
static char *file_of(const char *path)
{
    char *file = realpath(path, NULL);
    const char *slash;
    Dl_info here;

    if (file != NULL)
        return file;
    if (path[0] == '/' || dladdr((void *)&registry, &here) == 0 || (slash = strrchr(here.dli_fname, '/')) == NULL ||
        asprintf(&file, "%.*s/%s", (int)(slash - here.dli_fname), here.dli_fname, path) < 0)
        return strdup(path);
    if (access(file, F_OK) == 0)
        return file;
    free(file);
    return strdup(path);
}

/* How many devices of the library a program sees. Under the lock. */
static uint32_t count_of(const ep_library *library)
{
    return library->is_opening ? 0 : library->count;
}

/* Makes the list of all devices again. Under the lock. */
static bool list_devices(void)
{
    size_t count = 1;
    const OrtEpDevice **list;

    for (const ep_library *library = registry.libraries; library != NULL; library = library->next)
        count += count_of(library);
    list = calloc(count, sizeof *list);
    if (list == NULL)
        return false;
    list[0] = ort_cpu_device();
    count = 1;
    for (const ep_library *library = registry.libraries; library != NULL; library = library->next)
        for (uint32_t i = 0; i < count_of(library); i++)
            list[count++] = &library->devices[i];
    free(registry.list);
    registry.list = list;
    registry.count = count;
    return true;
}

/* The link to the library of that name, or to the end of the list. Under the lock. */
static ep_library **link_of(const char *name)
{
    ep_library **link = &registry.libraries;

    while (*link != NULL && strcmp((*link)->name, name) != 0)
        link = &(*link)->next;
    return link;
}

static OrtStatus *find_devices(ep_library *library)
{
    ort_writer model = { 0 };
    OrtStatus *failed = NULL;
    uint32_t count = 1;

    write_identity(&model);
    if (model.failed)
        failed = ort_no_memory();
    for (uint32_t i = 0; failed == NULL && i < count; i++)
        failed = find_device(library, i, &model, &count);
    free(model.data);
    for (uint32_t i = 0; i < library->count; i++)
        library->devices[i].device = &library->hardware[i];
    return failed;
}

OrtStatus *ort_RegisterExecutionProviderLibrary(OrtEnv *env, const char *registration_name, const char *path)
{
    ep_library *library, **link;
    OrtStatus *failed = NULL;

    ORT_NEED(env);
    ORT_NEED(registration_name);
    ORT_NEED(path);
    library = calloc(1, sizeof *library);
    if (library == NULL)
        return ort_no_memory();
    library->name = strdup(registration_name);
    library->path = file_of(path);
    failed = library->name == NULL || library->path == NULL ? ort_no_memory()
                                                            : text_of(&env->entries, &library->environment);
    library->is_opening = true;
    (void)pthread_mutex_lock(&registry.lock);
    link = link_of(library->name != NULL ? library->name : "");
    if (failed == NULL && *link != NULL)
        failed = ort_fail(ORT_FAIL, "library is already registered under %s", registration_name);
    if (failed == NULL)
        *link = library;
    (void)pthread_mutex_unlock(&registry.lock);
    if (failed != NULL) {
        release_library(library);
        return failed;
    }
    failed = find_devices(library); /* takes as long as the library and its test in another process do */
    (void)pthread_mutex_lock(&registry.lock);
    library->is_opening = false;
    if (failed == NULL && !list_devices())
        failed = ort_no_memory();
    if (failed != NULL)
        *link_of(registration_name) = library->next;
    (void)pthread_mutex_unlock(&registry.lock);
    if (failed != NULL)
        release_library(library);
    return failed;
}

OrtStatus *ort_UnregisterExecutionProviderLibrary(OrtEnv *env, const char *registration_name)
{
    ep_library *library, **link;
    OrtStatus *failed = NULL;

    ORT_NEED(env);
    ORT_NEED(registration_name);
    (void)pthread_mutex_lock(&registry.lock);
    link = link_of(registration_name);
    library = *link;
    if (library == NULL || library->is_opening) {
        failed = ort_fail(ORT_FAIL, "%s was not registered", registration_name);
    } else {
        *link = library->next;
        if (list_devices()) {
            release_library(library);
        } else {
            *link = library;
            failed = ort_no_memory();
        }
    }
    (void)pthread_mutex_unlock(&registry.lock);
    return failed;
}

void ort_libraries_release(void)
{
    (void)pthread_mutex_lock(&registry.lock);
    while (registry.libraries != NULL) {
        ep_library *library = registry.libraries;

        registry.libraries = library->next;
        release_library(library);
    }
    free(registry.list);
    registry.list = NULL;
    registry.count = 0;
    (void)pthread_mutex_unlock(&registry.lock);
}

static OrtStatus *all_devices(const OrtEpDevice *const **out, size_t *out_count)
{
    bool ok;

    (void)pthread_mutex_lock(&registry.lock);
    ok = registry.list != NULL || list_devices();
    *out = registry.list;
    *out_count = registry.count;
    (void)pthread_mutex_unlock(&registry.lock);
    return ok ? NULL : ort_no_memory();
}

OrtStatus *ort_GetEpDevices(const OrtEnv *env, const OrtEpDevice *const **ep_devices, size_t *num_ep_devices)
{
    ORT_NEED(env);
    ORT_NEED(ep_devices);
    ORT_NEED(num_ep_devices);
    return all_devices(ep_devices, num_ep_devices);
}

/* The library of a device, and the device's number in it; NULL: it belongs to none. Under the lock. */
static const ep_library *library_of(const OrtEpDevice *device, uint32_t *out_number)
{
    for (const ep_library *library = registry.libraries; library != NULL; library = library->next)
        for (uint32_t i = 0; i < count_of(library); i++)
            if (device == &library->devices[i]) {
                *out_number = i;
                return library;
            }
    return NULL;
}

static bool set_option(OrtSessionOptions *options, const char *provider, const char *option, const char *value)
{
    char name[200];

    (void)snprintf(name, sizeof name, "%s.%s", provider, option);
    return ort_pairs_set(&options->settings, name, value);
}

/* Adds devices of one library as one provider, which is named after the first one. */
static OrtStatus *append_devices(OrtSessionOptions *options, const OrtEpDevice *const *devices, size_t count,
                                 const char *text)
{
    char provider[160], numbers[160] = "";
    const ep_library *library = NULL;
    bool ok;

    (void)pthread_mutex_lock(&registry.lock);
    for (size_t i = 0; i < count; i++) {
        uint32_t index = 0;
        const ep_library *owner = library_of(devices[i], &index);

        if (i == 0 && owner != NULL)
            provider_of(owner, index, provider);
        if (owner == NULL || (i > 0 && owner != library)) {
            (void)pthread_mutex_unlock(&registry.lock);
            return ort_fail(ORT_INVALID_ARGUMENT, "SessionOptionsAppendExecutionProvider_V2: %s",
                            owner == NULL ? "the device is of a library that is not registered any more"
                                          : "the devices are of libraries that are registered under two names");
        }
        library = owner;
        (void)snprintf(numbers + strlen(numbers), sizeof numbers - strlen(numbers), i > 0 ? ",%u" : "%u", index);
    }
    ok = ort_pairs_set(&options->providers, provider, "") && set_option(options, provider, "library", library->path) &&
         set_option(options, provider, "device", numbers) &&
         (library->environment == NULL || set_option(options, provider, "environment", library->environment)) &&
         (text == NULL || set_option(options, provider, "options", text));
    (void)pthread_mutex_unlock(&registry.lock);
    return ok ? NULL : ort_no_memory();
}

OrtStatus *ort_SessionOptionsAppendExecutionProvider_V2(OrtSessionOptions *session_options, OrtEnv *env,
                                                        const OrtEpDevice *const *ep_devices, size_t num_ep_devices,
                                                        const char *const *ep_option_keys,
                                                        const char *const *ep_option_vals, size_t num_ep_options)
{
    OrtStatus *failed = NULL;
    char *text = NULL;

    ORT_NEED(session_options);
    ORT_NEED(env);
    if (num_ep_devices == 0)
        return ort_fail(ORT_INVALID_ARGUMENT, "Empty list of OrtEpDevice instances");
    ORT_NEED(ep_devices);
    ORT_NEED(ep_devices[0]);
    if (num_ep_options > 0) {
        ORT_NEED(ep_option_keys);
        ORT_NEED(ep_option_vals);
    }
    for (size_t i = 1; i < num_ep_devices; i++)
        if (ep_devices[i] == NULL || strcmp(ep_devices[i]->name, ep_devices[0]->name) != 0)
            return ort_fail(ORT_INVALID_ARGUMENT,
                            "All OrtEpDevice values in ep_devices must have the same execution provider.");
    if (ep_devices[0] == ort_cpu_device()) {
        if (num_ep_options > 0)
            ort_log(&env->logger, ORT_LOGGING_LEVEL_INFO, "options of CPUExecutionProvider are ignored");
        return NULL;
    }
    if (num_ep_devices > ORT_EP_MOST_DEVICES)
        return ort_fail(ORT_INVALID_ARGUMENT, "SessionOptionsAppendExecutionProvider_V2: %zu devices; the most are %d",
                        num_ep_devices, ORT_EP_MOST_DEVICES);
    for (size_t i = 0; failed == NULL && i < num_ep_options; i++)
        failed = ep_option_keys[i] != NULL && ep_option_vals[i] != NULL
                     ? add_pair(&text, ep_option_keys[i], ep_option_vals[i])
                     : ort_fail(ORT_INVALID_ARGUMENT, "option %zu of the execution provider is NULL", i);
    if (failed == NULL)
        failed = append_devices(session_options, ep_devices, num_ep_devices, text);
    free(text);
    return failed;
}

OrtStatus *ort_SessionOptionsSetEpSelectionPolicy(OrtSessionOptions *options, OrtExecutionProviderDevicePolicy policy)
{
    ORT_NEED(options);
    if (policy < 0 || policy > 6)
        return ort_fail(ORT_INVALID_ARGUMENT,
                        "policy %d is not one of 0 (default) to 6 (minimum overall power) that ONNX Runtime 1.%d has",
                        policy, ORT_VERSION_MINOR);
    options->policy = policy;
    options->delegate = NULL;
    return NULL;
}

OrtStatus *ort_SessionOptionsSetEpSelectionPolicyDelegate(OrtSessionOptions *options, EpSelectionDelegate delegate,
                                                          void *delegate_state)
{
    ORT_NEED(options);
    ORT_NEED(delegate);
    options->delegate = delegate;
    options->delegate_state = delegate_state;
    return NULL;
}

/* The first device of the kind that a policy prefers; NULL: there is none, or it prefers the CPU. */
static const OrtEpDevice *preferred(OrtExecutionProviderDevicePolicy policy, const OrtEpDevice *const *list,
                                    size_t count)
{
    /* default, CPU, NPU, GPU, performance, efficiency, power */
    static const OrtHardwareDeviceType types[] = { 0, 0, 2, 1, 1, 2, 2 };

    INLAY_CHECK(policy >= 0 && policy <= 6);
    for (size_t i = 1; i < count; i++)
        if (types[policy] != 0 && list[i]->device->type == types[policy])
            return list[i];
    return NULL;
}

OrtStatus *ort_libraries_choose(const OrtSessionOptions *options, OrtSessionOptions *chosen)
{
    enum { MOST = 8 };
    const OrtEpDevice *const *list = NULL, *selected[MOST] = { NULL };
    const OrtKeyValuePairs none = { 0 };
    size_t count = 0, selected_count = 1;

    if (options->policy == 0 && options->delegate == NULL)
        return NULL;
    ORT_TRY(all_devices(&list, &count));
    if (options->delegate == NULL) {
        selected[0] = preferred(options->policy, list, count);
    } else {
        ORT_TRY(options->delegate((const OrtEpDevice **)(uintptr_t)list, count, &none, &none, selected, MOST,
                                  &selected_count, options->delegate_state));
        if (selected_count == 0 || selected_count > MOST)
            return ort_fail(ORT_INVALID_ARGUMENT, "the delegate selected %zu devices; it has to select 1 to %d",
                            selected_count, MOST);
    }
    for (size_t i = 0; i < selected_count; i++)
        if (selected[i] != NULL && selected[i] != list[0])
            ORT_TRY(append_devices(chosen, &selected[i], 1, NULL));
    return NULL;
}
