/* The environment, which is one per process, and its log. */
#include "ort.h"
#include "inlay/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct OrtThreadingOptions {
    int intra_threads;
};

static OrtEnv the_env = { .logger = { .level = ORT_LOGGING_LEVEL_WARNING, .id = "inlay" } };
static pthread_mutex_t env_lock = PTHREAD_MUTEX_INITIALIZER;

const OrtLogger *ort_default_logger(void)
{
    return &the_env.logger;
}

int ort_env_threads(void)
{
    return the_env.threads;
}

void ort_log_accepted(const char *name)
{
    static const char *reported[64];
    static uint32_t count;
    char line[160];
    bool known = false;

    (void)pthread_mutex_lock(&env_lock);
    INLAY_CHECK(count <= sizeof reported / sizeof reported[0]);
    for (uint32_t i = 0; i < count; i++)
        known = known || reported[i] == name;
    if (!known && count < sizeof reported / sizeof reported[0])
        reported[count++] = name;
    (void)pthread_mutex_unlock(&env_lock);
    (void)snprintf(line, sizeof line, "%s has no counterpart in inlay and is ignored", name);
    if (!known)
        ort_log(&the_env.logger, ORT_LOGGING_LEVEL_INFO, line);
}

static OrtStatus *make_env(OrtLoggingFunction fn, void *param, OrtLoggingLevel level, const char *id, int threads,
                           OrtEnv **out)
{
    ORT_NEED(out);
    *out = NULL;
    if (level < ORT_LOGGING_LEVEL_VERBOSE || level > ORT_LOGGING_LEVEL_FATAL)
        return ort_fail(ORT_INVALID_ARGUMENT, "logging level %d is not one of 0 (verbose) to 4 (fatal)", level);
    (void)pthread_mutex_lock(&env_lock);
    if (the_env.references++ == 0) { /* later environments share the settings of the first one */
        the_env.logger = (OrtLogger){ .fn = fn, .param = param, .level = level };
        (void)snprintf(the_env.logger.id, sizeof the_env.logger.id, "%s", id != NULL ? id : "");
        the_env.threads = threads;
    }
    (void)pthread_mutex_unlock(&env_lock);
    *out = &the_env;
    return NULL;
}

OrtStatus *ort_CreateEnv(OrtLoggingLevel log_severity_level, const char *logid, OrtEnv **out)
{
    return make_env(NULL, NULL, log_severity_level, logid, 0, out);
}

OrtStatus *ort_CreateEnvWithCustomLogger(OrtLoggingFunction logging_function, void *logger_param,
                                         OrtLoggingLevel log_severity_level, const char *logid, OrtEnv **out)
{
    return make_env(logging_function, logger_param, log_severity_level, logid, 0, out);
}

OrtStatus *ort_CreateEnvWithGlobalThreadPools(OrtLoggingLevel log_severity_level, const char *logid,
                                              const OrtThreadingOptions *tp_options, OrtEnv **out)
{
    return make_env(NULL, NULL, log_severity_level, logid, ort_threading_options_threads(tp_options), out);
}

OrtStatus *ort_CreateEnvWithCustomLoggerAndGlobalThreadPools(OrtLoggingFunction logging_function, void *logger_param,
                                                             OrtLoggingLevel log_severity_level, const char *logid,
                                                             const OrtThreadingOptions *tp_options, OrtEnv **out)
{
    return make_env(logging_function, logger_param, log_severity_level, logid,
                    ort_threading_options_threads(tp_options), out);
}

OrtStatus *ort_CreateEnvWithOptions(const OrtEnvCreationOptions *options, OrtEnv **out)
{
    bool ok;

    ORT_NEED(options);
    ORT_NEED(out);
    ORT_TRY(make_env(options->custom_logging_function, options->custom_logging_param, options->logging_severity_level,
                     options->log_id, ort_threading_options_threads(options->threading_options), out));
    (void)pthread_mutex_lock(&env_lock);
    ok = (*out)->references > 1 || options->config_entries == NULL ||
         ort_pairs_copy(&(*out)->entries, options->config_entries);
    (void)pthread_mutex_unlock(&env_lock);
    if (ok)
        return NULL;
    ort_ReleaseEnv(*out);
    *out = NULL;
    return ort_no_memory();
}

OrtStatus *ort_UpdateEnvWithCustomLogLevel(OrtEnv *ort_env, OrtLoggingLevel log_severity_level)
{
    ORT_NEED(ort_env);
    ort_env->logger.level = log_severity_level;
    return NULL;
}

void ort_ReleaseEnv(OrtEnv *env)
{
    if (env == NULL)
        return;
    (void)pthread_mutex_lock(&env_lock);
    if (env->references > 0 && --env->references == 0) {
        env->logger = (OrtLogger){ .level = ORT_LOGGING_LEVEL_WARNING, .id = "inlay" };
        ort_pairs_clear(&env->entries);
        ort_libraries_release();
    }
    (void)pthread_mutex_unlock(&env_lock);
}

OrtStatus *ort_CreateThreadingOptions(OrtThreadingOptions **out)
{
    ORT_NEED(out);
    *out = calloc(1, sizeof **out);
    return *out != NULL ? NULL : ort_no_memory();
}

void ort_ReleaseThreadingOptions(OrtThreadingOptions *options)
{
    free(options);
}

OrtStatus *ort_SetGlobalIntraOpNumThreads(OrtThreadingOptions *tp_options, int intra_op_num_threads)
{
    ORT_NEED(tp_options);
    if (intra_op_num_threads < 0)
        return ort_fail(ORT_INVALID_ARGUMENT, "%d threads; 0 means all", intra_op_num_threads);
    tp_options->intra_threads = intra_op_num_threads;
    return NULL;
}

int ort_threading_options_threads(const OrtThreadingOptions *options)
{
    return options != NULL ? options->intra_threads : 0;
}

/* Providers and devices.
 *
 * Programs look for the CPU provider, which every build has. Which providers of inlay run a session is configured in
 * inlay. */

OrtStatus *ort_GetAvailableProviders(char ***out_ptr, int *provider_length)
{
    ORT_NEED(out_ptr);
    ORT_NEED(provider_length);
    *provider_length = 0;
    *out_ptr = calloc(1, sizeof **out_ptr);
    if (*out_ptr == NULL || ((*out_ptr)[0] = strdup("CPUExecutionProvider")) == NULL) {
        free(*out_ptr);
        *out_ptr = NULL;
        return ort_no_memory();
    }
    *provider_length = 1;
    return NULL;
}

OrtStatus *ort_ReleaseAvailableProviders(char **ptr, int providers_length)
{
    for (int i = 0; ptr != NULL && i < providers_length; i++)
        free(ptr[i]);
    free(ptr);
    return NULL;
}

ORT_GETTER(ort_GetNumHardwareDevices, const OrtEnv *, env, size_t, num_devices, 1)

OrtStatus *ort_GetHardwareDevices(const OrtEnv *env, const OrtHardwareDevice **devices, size_t num_devices)
{
    ORT_NEED(env);
    ORT_NEED(devices);
    if (num_devices < 1)
        return ort_fail(ORT_INVALID_ARGUMENT, "num_devices is %zu; GetNumHardwareDevices returns the number of devices",
                        num_devices);
    devices[0] = ort_cpu();
    return NULL;
}

/* Models compiled here have no information on compatibility, nor does ONNX Runtime's CPU provider read any. */
OrtStatus *ort_GetModelCompatibilityForEpDevices(const OrtEpDevice *const *ep_devices, size_t num_ep_devices,
                                                 const char *compatibility_info,
                                                 OrtCompiledModelCompatibility *out_status)
{
    if (num_ep_devices == 0)
        return ort_fail(ORT_INVALID_ARGUMENT, "ep_devices is empty");
    ORT_NEED(ep_devices);
    ORT_NEED(compatibility_info);
    ORT_NEED(out_status);
    for (size_t i = 0; i < num_ep_devices; i++)
        ORT_NEED(ep_devices[i]);
    *out_status = ORT_COMPATIBILITY_NOT_APPLICABLE;
    return NULL;
}

/* The CPU is compatible with the only provider: no reasons against it. */
struct OrtDeviceEpIncompatibilityDetails {
    uint32_t reasons;
    int32_t error_code;
};
static OrtDeviceEpIncompatibilityDetails compatible;

OrtStatus *ort_GetHardwareDeviceEpIncompatibilityDetails(const OrtEnv *env, const char *ep_name,
                                                         const OrtHardwareDevice *hw,
                                                         OrtDeviceEpIncompatibilityDetails **details)
{
    ORT_NEED(env);
    ORT_NEED(ep_name);
    ORT_NEED(hw);
    ORT_NEED(details);
    if (strcmp(ep_name, ort_EpDevice_EpName(ort_cpu_device())) != 0)
        return ort_fail(ORT_INVALID_ARGUMENT, "no execution provider %s is registered", ep_name);
    *details = &compatible;
    return NULL;
}

ORT_GETTER(ort_DeviceEpIncompatibilityDetails_GetReasonsBitmask, const OrtDeviceEpIncompatibilityDetails *, details,
           uint32_t, reasons_bitmask, details->reasons)
ORT_GETTER(ort_DeviceEpIncompatibilityDetails_GetNotes, const OrtDeviceEpIncompatibilityDetails *, details,
           const char *, notes, NULL)
ORT_GETTER(ort_DeviceEpIncompatibilityDetails_GetErrorCode, const OrtDeviceEpIncompatibilityDetails *, details, int32_t,
           error_code, details->error_code)
