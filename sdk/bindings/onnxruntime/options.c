/* Options of sessions and of runs. */
#include "ort.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

OrtStatus *ort_CreateSessionOptions(OrtSessionOptions **options)
{
    ORT_NEED(options);
    *options = calloc(1, sizeof **options);
    if (*options == NULL)
        return ort_no_memory();
    (*options)->level = -1;
    (*options)->log_level = -1;
    (*options)->mem_pattern = 1;
    return NULL;
}

void ort_ReleaseSessionOptions(OrtSessionOptions *options)
{
    if (options == NULL)
        return;
    ort_pairs_clear(&options->entries);
    ort_pairs_clear(&options->dims);
    ort_pairs_clear(&options->denotations);
    ort_pairs_clear(&options->providers);
    ort_pairs_clear(&options->settings);
    free(options->optimized_path);
    free(options->profile_prefix);
    free(options->domains);
    ort_initializers_release(options);
    free(options);
}

static OrtStatus *add_domain(OrtSessionOptions *options, OrtCustomOpDomain *domain)
{
    if (!ORT_GROW(options->domains, options->domain_count))
        return ort_no_memory();
    options->domains[options->domain_count++] = domain;
    return NULL;
}

OrtStatus *ort_CloneSessionOptions(const OrtSessionOptions *in_options, OrtSessionOptions **out_options)
{
    OrtSessionOptions *copy;
    bool ok;

    ORT_NEED(in_options);
    ORT_NEED(out_options);
    *out_options = NULL;
    copy = malloc(sizeof *copy);
    if (copy == NULL)
        return ort_no_memory();
    *copy = *in_options;
    copy->entries = copy->dims = copy->denotations = copy->providers = copy->settings = (OrtKeyValuePairs){ 0 };
    copy->optimized_path = copy->profile_prefix = NULL;
    copy->domains = NULL;
    copy->domain_count = 0;
    copy->initializers = NULL;
    copy->files = NULL;
    copy->initializer_count = copy->file_count = 0;
    ok = ort_pairs_copy(&copy->entries, &in_options->entries) && ort_pairs_copy(&copy->dims, &in_options->dims) &&
         ort_pairs_copy(&copy->denotations, &in_options->denotations) &&
         ort_pairs_copy(&copy->providers, &in_options->providers) &&
         ort_pairs_copy(&copy->settings, &in_options->settings) &&
         ort_set_text(&copy->optimized_path, in_options->optimized_path) &&
         ort_set_text(&copy->profile_prefix, in_options->profile_prefix);
    for (size_t i = 0; ok && i < in_options->domain_count; i++)
        ok = add_domain(copy, in_options->domains[i]) == NULL;
    ok = ok && ort_initializers_copy(copy, in_options);
    if (!ok) {
        ort_ReleaseSessionOptions(copy);
        return ort_no_memory();
    }
    *out_options = copy;
    return NULL;
}

OrtStatus *ort_SetOptimizedModelFilePath(OrtSessionOptions *options, const char *optimized_model_filepath)
{
    ORT_NEED(options);
    if (optimized_model_filepath != NULL && optimized_model_filepath[0] == '\0')
        optimized_model_filepath = NULL; /* no file is written */
    return ort_set_text(&options->optimized_path, optimized_model_filepath) ? NULL : ort_no_memory();
}

OrtStatus *ort_SetSessionExecutionMode(OrtSessionOptions *options, ExecutionMode execution_mode)
{
    ORT_NEED(options);
    if (execution_mode != 0 && execution_mode != 1)
        return ort_fail(ORT_INVALID_ARGUMENT, "execution_mode is not valid");
    options->mode = execution_mode;
    return NULL;
}

ORT_GETTER(ort_GetSessionExecutionMode, const OrtSessionOptions *, options, ExecutionMode, out, options->mode)

OrtStatus *ort_EnableProfiling(OrtSessionOptions *options, const char *profile_file_prefix)
{
    ORT_NEED(options);
    return ort_set_text(&options->profile_prefix, profile_file_prefix != NULL ? profile_file_prefix : "")
               ? NULL
               : ort_no_memory();
}

OrtStatus *ort_DisableProfiling(OrtSessionOptions *options)
{
    ORT_NEED(options);
    (void)ort_set_text(&options->profile_prefix, NULL);
    return NULL;
}

OrtStatus *ort_EnableMemPattern(OrtSessionOptions *options)
{
    ORT_NEED(options);
    options->mem_pattern = 1;
    return NULL;
}

OrtStatus *ort_DisableMemPattern(OrtSessionOptions *options)
{
    ORT_NEED(options);
    options->mem_pattern = 0;
    return NULL;
}

ORT_GETTER(ort_GetMemPatternEnabled, const OrtSessionOptions *, options, int, out, options->mem_pattern)

OrtStatus *ort_SetSessionLogId(OrtSessionOptions *options, const char *logid)
{
    ORT_NEED(options);
    ORT_NEED(logid);
    (void)snprintf(options->log_id, sizeof options->log_id, "%s", logid);
    return NULL;
}

OrtStatus *ort_SetSessionLogSeverityLevel(OrtSessionOptions *options, int session_log_severity_level)
{
    ORT_NEED(options);
    if (session_log_severity_level < -1 || session_log_severity_level > ORT_LOGGING_LEVEL_FATAL)
        return ort_fail(ORT_INVALID_ARGUMENT, "logging level %d is not one of 0 (verbose) to 4 (fatal)",
                        session_log_severity_level);
    options->log_level = session_log_severity_level;
    return NULL;
}

OrtStatus *ort_SetUserLoggingFunction(OrtSessionOptions *options, OrtLoggingFunction user_logging_function,
                                      void *user_logging_param)
{
    ORT_NEED(options);
    options->log_fn = user_logging_function;
    options->log_param = user_logging_param;
    return NULL;
}

OrtStatus *ort_SetSessionGraphOptimizationLevel(OrtSessionOptions *options,
                                                GraphOptimizationLevel graph_optimization_level)
{
    ORT_NEED(options);
    if (graph_optimization_level != 99 && (graph_optimization_level < 0 || graph_optimization_level > 3))
        return ort_fail(ORT_INVALID_ARGUMENT, "graph_optimization_level is not valid");
    options->level = graph_optimization_level;
    return NULL;
}

OrtStatus *ort_SetIntraOpNumThreads(OrtSessionOptions *options, int intra_op_num_threads)
{
    ORT_NEED(options);
    if (intra_op_num_threads < 0)
        return ort_fail(ORT_INVALID_ARGUMENT, "%d threads; 0 means all", intra_op_num_threads);
    options->intra_threads = intra_op_num_threads;
    return NULL;
}

OrtStatus *ort_SetDeterministicCompute(OrtSessionOptions *options, bool value)
{
    ORT_NEED(options);
    options->reproducible = value;
    return NULL;
}

OrtStatus *ort_SessionOptionsSetLoadCancellationFlag(OrtSessionOptions *options, bool cancel)
{
    ORT_NEED(options);
    __atomic_store_n(&options->cancel_load, cancel ? 1u : 0u, __ATOMIC_RELEASE);
    return NULL;
}

OrtStatus *ort_AddFreeDimensionOverrideByName(OrtSessionOptions *options, const char *dim_name, int64_t dim_value)
{
    char text[32];

    ORT_NEED(options);
    ORT_NEED(dim_name);
    (void)snprintf(text, sizeof text, "%lld", (long long)dim_value);
    return ort_pairs_set(&options->dims, dim_name, text) ? NULL : ort_no_memory();
}

OrtStatus *ort_SessionOptionsAppendExecutionProvider(OrtSessionOptions *options, const char *provider_name,
                                                     const char *const *provider_options_keys,
                                                     const char *const *provider_options_values, size_t num_keys)
{
    char key[256];

    ORT_NEED(options);
    ORT_NEED(provider_name);
    if (strcmp(provider_name, "CPU") == 0 || strcmp(provider_name, "CPUExecutionProvider") == 0)
        return NULL;
    for (const char *letter = provider_name; *letter != '\0'; letter++)
        if (*letter >= 'A' &&
            *letter <= 'Z') /* inlay's names are lower case; this is an unknown name of ONNX Runtime */
            return ort_fail(ORT_INVALID_ARGUMENT,
                            "Unknown provider name '%s'. Currently supported values are 'CPU' and "
                            "the names of inlay's providers, such as 'cpu'",
                            provider_name);
    if (num_keys > 0) {
        ORT_NEED(provider_options_keys);
        ORT_NEED(provider_options_values);
    }
    for (size_t i = 0; i < num_keys; i++) {
        ORT_NEED(provider_options_keys[i]);
        ORT_NEED(provider_options_values[i]);
        if ((size_t)snprintf(key, sizeof key, "%s.%s", provider_name, provider_options_keys[i]) >= sizeof key)
            return ort_fail(
                ORT_INVALID_ARGUMENT,
                "the option %.40s... of provider %.40s: the two names together must have fewer than %zu bytes; "
                "shorten them",
                provider_options_keys[i], provider_name, sizeof key - 1);
        if (!ort_pairs_set(&options->settings, key, provider_options_values[i]))
            return ort_no_memory();
    }
    return ort_pairs_set(&options->providers, provider_name, "") ? NULL : ort_no_memory();
}

OrtStatus *ort_AddCustomOpDomain(OrtSessionOptions *options, OrtCustomOpDomain *custom_op_domain)
{
    ORT_NEED(options);
    ORT_NEED(custom_op_domain);
    return add_domain(options, custom_op_domain);
}

static OrtStatus *call_register(OrtSessionOptions *options, void *handle, const char *library, const char *name)
{
    RegisterCustomOpsFn register_ops;
    void *symbol = dlsym(handle, name);

    if (symbol == NULL)
        return ort_fail(ORT_FAIL, "Failed to get symbol %s: %s has no function of that name", name, library);
    memcpy(&register_ops, &symbol, sizeof symbol);
    return register_ops(options, ort_base());
}

OrtStatus *ort_RegisterCustomOpsLibrary(OrtSessionOptions *options, const char *library_path, void **library_handle)
{
    ORT_NEED(options);
    ORT_NEED(library_path);
    ORT_NEED(library_handle);
    *library_handle = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
    if (*library_handle == NULL)
        return ort_fail(ORT_FAIL, "RegisterCustomOpsLibrary: Failed to load library %s with error: %s", library_path,
                        dlerror());
    return call_register(options, *library_handle, library_path, "RegisterCustomOps");
}

/* The library is never unloaded, because its operators remain in use. */
OrtStatus *ort_RegisterCustomOpsLibrary_V2(OrtSessionOptions *options, const char *library_name)
{
    void *handle;

    return ort_RegisterCustomOpsLibrary(options, library_name, &handle);
}

OrtStatus *ort_RegisterCustomOpsUsingFunction(OrtSessionOptions *options, const char *registration_func_name)
{
    ORT_NEED(options);
    ORT_NEED(registration_func_name);
    if (registration_func_name[0] == '\0')
        return ort_fail(ORT_INVALID_ARGUMENT, "RegisterCustomOpsUsingFunction: Registration function name must be "
                                              "specified.");
    return call_register(options, RTLD_DEFAULT, "the program", registration_func_name);
}

/* The operators of onnxruntime-extensions are among those that every session has (providers prepost). */
OrtStatus *ort_EnableOrtCustomOps(OrtSessionOptions *options)
{
    ORT_NEED(options);
    return NULL;
}

OrtStatus *ort_CreateRunOptions(OrtRunOptions **out)
{
    ORT_NEED(out);
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return ort_no_memory();
    (*out)->severity = ORT_LOGGING_LEVEL_WARNING;
    return NULL;
}

void ort_ReleaseRunOptions(OrtRunOptions *options)
{
    if (options == NULL)
        return;
    ort_pairs_clear(&options->entries);
    free(options->tag);
    free(options->profile_prefix);
    free(options->adapters);
    free(options);
}

OrtStatus *ort_RunOptionsSetRunLogVerbosityLevel(OrtRunOptions *options, int log_verbosity_level)
{
    ORT_NEED(options);
    options->verbosity = log_verbosity_level;
    return NULL;
}

OrtStatus *ort_RunOptionsSetRunLogSeverityLevel(OrtRunOptions *options, int log_severity_level)
{
    ORT_NEED(options);
    options->severity = log_severity_level;
    return NULL;
}

ORT_GETTER(ort_RunOptionsGetRunLogVerbosityLevel, const OrtRunOptions *, options, int, log_verbosity_level,
           options->verbosity)
ORT_GETTER(ort_RunOptionsGetRunLogSeverityLevel, const OrtRunOptions *, options, int, log_severity_level,
           options->severity)

OrtStatus *ort_RunOptionsSetRunTag(OrtRunOptions *options, const char *run_tag)
{
    ORT_NEED(options);
    return ort_set_text(&options->tag, run_tag) ? NULL : ort_no_memory();
}

ORT_GETTER(ort_RunOptionsGetRunTag, const OrtRunOptions *, options, const char *, run_tag,
           options->tag != NULL ? options->tag : "")

OrtStatus *ort_RunOptionsSetTerminate(OrtRunOptions *options)
{
    ORT_NEED(options);
    __atomic_store_n(&options->terminate, 1, __ATOMIC_RELEASE);
    return NULL;
}

OrtStatus *ort_RunOptionsUnsetTerminate(OrtRunOptions *options)
{
    ORT_NEED(options);
    __atomic_store_n(&options->terminate, 0, __ATOMIC_RELEASE);
    return NULL;
}

OrtStatus *ort_AddRunConfigEntry(OrtRunOptions *options, const char *config_key, const char *config_value)
{
    ORT_NEED(options);
    ORT_NEED(config_key);
    ORT_NEED(config_value);
    return ort_pairs_set(&options->entries, config_key, config_value) ? NULL : ort_no_memory();
}

const char *ort_GetRunConfigEntry(const OrtRunOptions *options, const char *config_key)
{
    return options != NULL && config_key != NULL ? ort_pairs_get(&options->entries, config_key) : NULL;
}

OrtStatus *ort_RunOptionsEnableProfiling(OrtRunOptions *options, const char *profile_file_prefix)
{
    ORT_NEED(options);
    return ort_set_text(&options->profile_prefix, profile_file_prefix != NULL ? profile_file_prefix : "")
               ? NULL
               : ort_no_memory();
}

OrtStatus *ort_RunOptionsDisableProfiling(OrtRunOptions *options)
{
    ORT_NEED(options);
    (void)ort_set_text(&options->profile_prefix, NULL);
    return NULL;
}
