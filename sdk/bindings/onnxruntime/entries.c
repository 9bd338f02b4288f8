/* The config entries of a session's options. */
#include "ort.h"
#include <stdlib.h>
#include <string.h>

OrtStatus *ort_AddSessionConfigEntry(OrtSessionOptions *options, const char *config_key, const char *config_value)
{
    ORT_NEED(options);
    ORT_NEED(config_key);
    ORT_NEED(config_value);
    if (config_key[0] == '\0' || strlen(config_key) > 1024)
        return ort_fail(ORT_INVALID_ARGUMENT, "Config key is empty or longer than maximum length 1024");
    if (strlen(config_value) > 8192)
        return ort_fail(ORT_INVALID_ARGUMENT, "Config value is longer than maximum length 8192");
    return ort_pairs_set(&options->entries, config_key, config_value) ? NULL : ort_no_memory();
}

OrtStatus *ort_HasSessionConfigEntry(const OrtSessionOptions *options, const char *config_key, int *out)
{
    ORT_NEED(options);
    ORT_NEED(config_key);
    ORT_NEED(out);
    *out = ort_pairs_get(&options->entries, config_key) != NULL;
    return NULL;
}

OrtStatus *ort_GetSessionConfigEntry(const OrtSessionOptions *options, const char *config_key, char *config_value,
                                     size_t *size)
{
    const char *value;

    ORT_NEED(options);
    ORT_NEED(config_key);
    ORT_NEED(size);
    value = ort_pairs_get(&options->entries, config_key);
    if (value == NULL)
        return ort_fail(ORT_INVALID_ARGUMENT, "Session config entry '%s' was not found.", config_key);
    return ort_fill_text(value, config_value, size);
}

OrtStatus *ort_GetSessionOptionsConfigEntries(const OrtSessionOptions *options, OrtKeyValuePairs **out)
{
    ORT_NEED(options);
    ORT_NEED(out);
    *out = calloc(1, sizeof **out);
    if (*out != NULL && ort_pairs_copy(*out, &options->entries))
        return NULL;
    ort_ReleaseKeyValuePairs(*out);
    *out = NULL;
    return ort_no_memory();
}
