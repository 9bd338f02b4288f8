/* The EP's library: its factories, the device that is used, and the EPs that it creates. */
#include "ort_ep/provider.h"
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 32 };

inlay_status ep_fail(const ep_state *state, const char *what, OrtStatus *failed, inlay_status code, inlay_diag *diag)
{
    char text[300];

    (void)snprintf(text, sizeof text, "%s", ort_GetErrorMessage(failed));
    ort_ReleaseStatus(failed);
    return inlay_fail(diag, code, "execution provider %s: %s: %s", state->name, what, text);
}

static uint32_t read_number(const char *folder, const char *device, const char *file)
{
    char path[300], text[32] = "0";
    FILE *stream;

    (void)snprintf(path, sizeof path, "%s/%.200s/%s", folder, device, file);
    stream = fopen(path, "re");
    if (stream != NULL) {
        (void)!fgets(text, sizeof text, stream);
        (void)fclose(stream);
    }
    return (uint32_t)strtoul(text, NULL, 0);
}

/* The CPU, and the GPUs and NPUs on the PCI bus; made once and kept. */
static struct {
    const OrtHardwareDevice *devices[MOST_DEVICES];
    size_t count;
} machine;

static void find_devices(void)
{
    static const char folder[] = "/sys/bus/pci/devices";
    enum { DISPLAY = 0x03, ACCELERATOR = 0x12 }; /* base classes of PCI */
    DIR *dir = opendir(folder);
    const struct dirent *entry;

    machine.devices[machine.count++] = ort_cpu();
    while (dir != NULL && (entry = readdir(dir)) != NULL && machine.count < MOST_DEVICES) {
        uint32_t base_class = entry->d_name[0] == '.' ? 0 : read_number(folder, entry->d_name, "class") >> 16;
        OrtHardwareDevice *device = NULL;

        if (base_class != DISPLAY && base_class != ACCELERATOR)
            continue;
        ort_ReleaseStatus(ort_CreateHardwareDevice(base_class == DISPLAY ? 1 : 2,
                                                   read_number(folder, entry->d_name, "vendor"),
                                                   read_number(folder, entry->d_name, "device"), "", NULL, &device));
        if (device != NULL)
            machine.devices[machine.count++] = device;
    }
    if (dir != NULL)
        (void)closedir(dir);
}

/* The name under which a library is registered: the name of its file, without lib and .so. */
static void name_of_file(const char *path, char name[64])
{
    const char *file = strrchr(path, '/');
    char *end;

    file = file != NULL ? file + 1 : path;
    if (strncmp(file, "lib", 3) == 0)
        file += 3;
    (void)snprintf(name, 64, "%s", file);
    end = strstr(name, ".so");
    if (end != NULL && end != name)
        *end = '\0';
}

static inlay_status create_factories(ep_state *state, void *handle, const char *path, inlay_diag *diag)
{
    CreateEpApiFactoriesFn create;
    void *symbol = dlsym(handle, ORT_EP_CREATE_FACTORIES), *release = dlsym(handle, ORT_EP_RELEASE_FACTORY);
    const size_t most = sizeof state->library.factories / sizeof state->library.factories[0];
    char name[64], text[1000];
    OrtStatus *failed;
    uint32_t refused;

    if (symbol == NULL || release == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "%.200s is not a library of an ONNX Runtime execution provider: it has no %s", path,
                          symbol == NULL ? ORT_EP_CREATE_FACTORIES : ORT_EP_RELEASE_FACTORY);
    (void)snprintf(text, sizeof text, "provider ort_ep opens %.900s", path);
    state->host->log(state->host->ctx, INLAY_LOG_INFO, text); /* names the library if it crashes */
    memcpy(&create, &symbol, sizeof create);
    memcpy(&state->library.release_factory, &release, sizeof release);
    name_of_file(path, name);
    (void)ep_refused_version();
    failed = create(name, ort_base(), &state->logger, state->library.factories, most, &state->library.factory_count);
    refused = ep_refused_version();
    if ((failed != NULL || state->library.factory_count == 0) && refused != 0) {
        ort_ReleaseStatus(failed);
        state->library.factory_count = 0;
        ep_describe_version(refused, text, sizeof text);
        return inlay_fail(diag, INLAY_UNSUPPORTED, "%.200s: %.300s", path, text);
    }
    if (failed != NULL) {
        state->library.factory_count = 0;
        return ep_fail(state, ORT_EP_CREATE_FACTORIES, failed, INLAY_UNSUPPORTED, diag);
    }
    if (state->library.factory_count == 0 || state->library.factory_count > most)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "%.200s created %zu factories", path, state->library.factory_count);
    return INLAY_OK;
}

struct OrtDeviceEpIncompatibilityDetails {
    uint32_t reasons; /* bits; 0: none */
    int32_t error_code;
    char notes[160];
};

OrtStatus *ort_DeviceEpIncompatibilityDetails_SetDetails(OrtDeviceEpIncompatibilityDetails *details,
                                                         uint32_t reasons_bitmask, int32_t error_code,
                                                         const char *notes)
{
    ORT_NEED(details);
    details->reasons = reasons_bitmask;
    details->error_code = error_code;
    (void)snprintf(details->notes, sizeof details->notes, "%s", notes != NULL ? notes : "");
    return NULL;
}

/* Reports that there is no device, with the reason of the first factory that states one. */
static inlay_status fail_without_device(const ep_state *state, const char *path, const char *ep_name, inlay_diag *diag)
{
    static const char *const types[] = { "CPU", "GPU", "NPU" };
    OrtDeviceEpIncompatibilityDetails details = { 0 };
    char reason[400] = "";

    for (size_t i = 0; i < state->library.factory_count; i++) {
        OrtEpFactory *factory = state->library.factories[i];

        if ((ep_name != NULL && strcmp(factory->GetName(factory), ep_name) != 0) || !EP_SINCE(factory, 24) ||
            factory->GetHardwareDeviceIncompatibilityDetails == NULL)
            continue;
        for (size_t k = 0; k < machine.count && reason[0] == '\0'; k++) {
            const OrtHardwareDevice *device = machine.devices[k];

            ort_ReleaseStatus(factory->GetHardwareDeviceIncompatibilityDetails(factory, device, &details));
            if (details.reasons != 0)
                (void)snprintf(reason, sizeof reason, ": %.60s says of the %s: %.160s (reasons %#x, code %d)",
                               factory->GetName(factory), device->type < 3 ? types[device->type] : "device",
                               details.notes, (unsigned)details.reasons, (int)details.error_code);
        }
    }
    return inlay_fail(diag, INLAY_UNSUPPORTED, "%.200s supports no device of this machine%s%s%s", path,
                      ep_name != NULL ? " for execution provider " : "", ep_name != NULL ? ep_name : "", reason);
}

/* Asks a factory for its devices, and keeps those that are to be used. */
static inlay_status ask_devices(ep_state *state, OrtEpFactory *factory, inlay_diag *diag)
{
    OrtEpDevice *devices[MOST_DEVICES] = { NULL };
    size_t count = 0;
    OrtStatus *failed;

    if (!EP_SINCE(factory, 23))
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "execution provider %s was built for version 1.%u of ONNX Runtime; 1.23 is the oldest one "
                          "with this interface",
                          factory->GetName(factory), factory->ort_version_supported);
    failed = factory->GetSupportedDevices(factory, machine.devices, machine.count, devices, MOST_DEVICES, &count);
    if (failed != NULL)
        return ep_fail(state, "GetSupportedDevices", failed, INLAY_UNSUPPORTED, diag);
    for (size_t i = 0; i < count && i < MOST_DEVICES; i++) {
        const uint32_t number = state->library.device_count++;
        size_t at = 0;

        while (at < state->library.used_count && state->library.numbers[at] != number)
            at++;
        if (at < state->library.used_count)
            state->library.devices[at] = devices[i];
        else
            ort_ReleaseEpDevice(devices[i]);
    }
    return INLAY_OK;
}

/* Reads the numbers of the devices to use. */
static inlay_status read_numbers(ep_library *library, const char *text, inlay_diag *diag)
{
    const char *at = text;
    bool ok = true, more = true;

    while (ok && more) {
        char *end = NULL;
        unsigned long number = *at >= '0' && *at <= '9' ? strtoul(at, &end, 10) : UINT32_MAX;

        more = end != NULL && *end == ',';
        ok = number < UINT32_MAX && (more || *end == '\0') && library->used_count < ORT_EP_MOST_DEVICES;
        for (size_t i = 0; i < library->used_count; i++)
            ok = ok && library->numbers[i] != number;
        if (ok)
            library->numbers[library->used_count++] = (uint32_t)number;
        at = more ? end + 1 : at;
    }
    return ok ? INLAY_OK
              : inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                           "option device: '%.100s' is not a list of at most %d different numbers, as '0' or '0,2'",
                           text, ORT_EP_MOST_DEVICES);
}

/* An EP gets devices of its own that have the same memory, as in ONNX Runtime. */
static inlay_status check_devices(ep_library *library, const char *path, inlay_diag *diag)
{
    const OrtEpDevice *first = library->devices[0];

    for (size_t i = 0; i < library->used_count; i++) {
        const OrtEpDevice *device = library->devices[i];

        if (device == NULL)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "%.200s supports %u device%s of this machine; there is no number %u", path,
                              library->device_count, library->device_count == 1 ? "" : "s", library->numbers[i]);
        if (device->factory != first->factory)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "devices %u and %u of %.200s are of two execution providers, %.60s and %.60s; use the "
                              "provider once for each",
                              library->numbers[0], library->numbers[i], path, first->name, device->name);
        if ((device->memory == NULL) != (first->memory == NULL) ||
            (device->memory != NULL && !ort_MemoryDevice_AreEqual(ort_MemoryInfo_GetMemoryDevice(device->memory),
                                                                  ort_MemoryInfo_GetMemoryDevice(first->memory))))
            return inlay_fail(diag, INLAY_UNSUPPORTED,
                              "devices %u and %u of execution provider %.60s have different memories; use the provider "
                              "once for each",
                              library->numbers[0], library->numbers[i], first->name);
        library->hardware[i] = device->device;
        library->metadata[i] = &device->metadata;
    }
    library->device = library->devices[0];
    return INLAY_OK;
}

inlay_status ep_library_open(ep_state *state, const char *path, const char *ep_name, const char *numbers,
                             inlay_diag *diag)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); /* such libraries leave threads behind */
    inlay_status status;

    if (handle == NULL) {
        const char *why = dlerror();

        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "the library of the execution provider cannot be opened: %.400s", why != NULL ? why : path);
    }
    (void)pthread_once(&once, find_devices);
    status = read_numbers(&state->library, numbers, diag);
    if (status == INLAY_OK)
        status = create_factories(state, handle, path, diag);
    (void)dlclose(handle);
    for (size_t i = 0; status == INLAY_OK && i < state->library.factory_count; i++) {
        OrtEpFactory *factory = state->library.factories[i];

        if (ep_name == NULL || strcmp(factory->GetName(factory), ep_name) == 0)
            status = ask_devices(state, factory, diag);
    }
    if (status == INLAY_OK && state->library.device_count == 0)
        return fail_without_device(state, path, ep_name, diag);
    if (status == INLAY_OK)
        status = check_devices(&state->library, path, diag);
    if (status == INLAY_OK)
        state->name = state->library.device->name;
    return status;
}

void ep_library_close(ep_state *state)
{
    for (size_t i = 0; i < state->library.used_count; i++)
        ort_ReleaseEpDevice(state->library.devices[i]);
    for (size_t i = 0; i < state->library.factory_count; i++)
        ort_ReleaseStatus(state->library.release_factory(state->library.factories[i]));
    state->library = (ep_library){ 0 };
}

OrtStatus *ep_create(const ep_state *state, bool makes_context, OrtEp **out)
{
    const ep_library *library = &state->library;
    OrtEpFactory *factory = library->device->factory;

    *out = NULL;
    ORT_TRY(factory->CreateEp(factory, library->hardware, library->metadata, library->used_count,
                              makes_context ? &state->context_options : &state->options, &state->logger, out));
    if (*out == NULL)
        return ort_fail(ORT_EP_FAIL, "CreateEp returned no execution provider");
    return NULL;
}

void ep_release(const ep_state *state, OrtEp *ep)
{
    if (ep != NULL)
        state->library.device->factory->ReleaseEp(state->library.device->factory, ep);
}
