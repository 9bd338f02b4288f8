/* Errors, strings, and key-value lists. */
#include "ort.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

static OrtStatus *no_memory_status(void)
{
    static struct {
        OrtErrorCode code;
        char text[32];
    } status = { ORT_FAIL, "out of memory" };

    return (OrtStatus *)(void *)&status;
}

OrtStatus *ort_no_memory(void)
{
    return no_memory_status();
}

bool ort_grow(void *list_address, size_t count, size_t item_bytes)
{
    void *list;
    INLAY_CHECK(list_address != NULL && item_bytes > 0);

    memcpy(&list, list_address, sizeof list);
    list = realloc(list, (count + 1) * item_bytes);
    if (list != NULL)
        memcpy(list_address, &list, sizeof list);
    return list != NULL;
}

static OrtStatus *new_status(OrtErrorCode code, const char *text)
{
    size_t bytes = strlen(text) + 1;
    OrtStatus *status = malloc(sizeof *status + bytes);

    if (status == NULL)
        return no_memory_status();
    status->code = code;
    memcpy(status->text, text, bytes);
    return status;
}

OrtStatus *ort_fail(OrtErrorCode code, const char *format, ...)
{
    char text[2048];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return new_status(code, text);
}

OrtStatus *ort_from(inlay_status status, const inlay_diag *diag)
{
    static const OrtErrorCode codes[] = {
        [INLAY_INVALID_ARGUMENT] = ORT_INVALID_ARGUMENT,
        [INLAY_OUT_OF_MEMORY] = ORT_RUNTIME_EXCEPTION,
        [INLAY_NOT_FOUND] = ORT_NO_SUCHFILE,
        [INLAY_UNSUPPORTED] = ORT_NOT_IMPLEMENTED,
        [INLAY_INVALID_MODEL] = ORT_INVALID_GRAPH,
        [INLAY_IO_ERROR] = ORT_FAIL,
        [INLAY_LIMIT_EXCEEDED] = ORT_FAIL,
        [INLAY_SHAPE_MISMATCH] = ORT_INVALID_ARGUMENT,
        [INLAY_CANCELLED] = ORT_FAIL,
        [INLAY_DEADLINE_EXCEEDED] = ORT_FAIL,
        [INLAY_DEVICE_LOST] = ORT_EP_FAIL,
        [INLAY_BUSY] = ORT_FAIL,
        [INLAY_INTERNAL] = ORT_RUNTIME_EXCEPTION,
    };

    if (status == INLAY_OK)
        return NULL;
    return new_status(status > 0 && (size_t)status < sizeof codes / sizeof codes[0] ? codes[status] : ORT_FAIL,
                      diag->text[0] != '\0' ? diag->text : inlay_status_text(status));
}

OrtStatus *ort_CreateStatus(OrtErrorCode code, const char *msg)
{
    return new_status(code, msg != NULL ? msg : "");
}

OrtErrorCode ort_GetErrorCode(const OrtStatus *status)
{
    return status != NULL ? status->code : ORT_OK;
}

const char *ort_GetErrorMessage(const OrtStatus *status)
{
    return status != NULL ? status->text : "";
}

void ort_ReleaseStatus(OrtStatus *status)
{
    if (status != no_memory_status())
        free(status);
}

bool ort_set_text(char **text, const char *value)
{
    char *copy = value != NULL ? strdup(value) : NULL;

    if (value != NULL && copy == NULL)
        return false;
    free(*text);
    *text = copy;
    return true;
}

OrtStatus *ort_give_text(OrtAllocator *allocator, const char *text, char **out)
{
    size_t bytes = strlen(text) + 1;

    *out = allocator->Alloc(allocator, bytes);
    if (*out == NULL)
        return ort_no_memory();
    memcpy(*out, text, bytes);
    return NULL;
}

OrtStatus *ort_fill_text(const char *text, char *out, size_t *size)
{
    size_t bytes = strlen(text) + 1, capacity = *size;

    *size = bytes;
    if (out == NULL)
        return NULL;
    if (capacity < bytes)
        return ort_fail(ORT_INVALID_ARGUMENT, "Result buffer is not large enough: it has %zu bytes, the text %zu",
                        capacity, bytes);
    memcpy(out, text, bytes);
    return NULL;
}

const char *ort_pairs_get(const OrtKeyValuePairs *pairs, const char *key)
{
    for (size_t i = 0; i < pairs->count; i++)
        if (strcmp(pairs->keys[i], key) == 0)
            return pairs->values[i];
    return NULL;
}

bool ort_pairs_set(OrtKeyValuePairs *pairs, const char *key, const char *value)
{
    char *new_key, *new_value;
    INLAY_CHECK(key != NULL && value != NULL);

    for (size_t i = 0; i < pairs->count; i++)
        if (strcmp(pairs->keys[i], key) == 0)
            return ort_set_text(&pairs->values[i], value);
    new_key = strdup(key);
    new_value = strdup(value);
    if (new_key == NULL || new_value == NULL || !ORT_GROW(pairs->keys, pairs->count) ||
        !ORT_GROW(pairs->values, pairs->count)) {
        free(new_key);
        free(new_value);
        return false;
    }
    pairs->keys[pairs->count] = new_key;
    pairs->values[pairs->count++] = new_value;
    return true;
}

bool ort_pairs_copy(OrtKeyValuePairs *to, const OrtKeyValuePairs *from)
{
    for (size_t i = 0; i < from->count; i++)
        if (!ort_pairs_set(to, from->keys[i], from->values[i]))
            return false;
    return true;
}

void ort_pairs_clear(OrtKeyValuePairs *pairs)
{
    for (size_t i = 0; i < pairs->count; i++) {
        free(pairs->keys[i]);
        free(pairs->values[i]);
    }
    free(pairs->keys);
    free(pairs->values);
    *pairs = (OrtKeyValuePairs){ 0 };
}

void ort_CreateKeyValuePairs(OrtKeyValuePairs **out)
{
    *out = calloc(1, sizeof **out);
}

void ort_AddKeyValuePair(OrtKeyValuePairs *kvps, const char *key, const char *value)
{
    if (kvps != NULL && key != NULL && key[0] != '\0')
        (void)ort_pairs_set(kvps, key, value != NULL ? value : "");
}

const char *ort_GetKeyValue(const OrtKeyValuePairs *kvps, const char *key)
{
    return kvps != NULL && key != NULL ? ort_pairs_get(kvps, key) : NULL;
}

void ort_GetKeyValuePairs(const OrtKeyValuePairs *kvps, const char *const **keys, const char *const **values,
                          size_t *num_entries)
{
    *keys = kvps != NULL ? (const char *const *)kvps->keys : NULL;
    *values = kvps != NULL ? (const char *const *)kvps->values : NULL;
    *num_entries = kvps != NULL ? kvps->count : 0;
}

void ort_RemoveKeyValuePair(OrtKeyValuePairs *kvps, const char *key)
{
    for (size_t i = 0; kvps != NULL && key != NULL && i < kvps->count; i++) {
        if (strcmp(kvps->keys[i], key) != 0)
            continue;
        free(kvps->keys[i]);
        free(kvps->values[i]);
        kvps->count--;
        memmove(kvps->keys + i, kvps->keys + i + 1, (kvps->count - i) * sizeof *kvps->keys);
        memmove(kvps->values + i, kvps->values + i + 1, (kvps->count - i) * sizeof *kvps->values);
        return;
    }
}

void ort_ReleaseKeyValuePairs(OrtKeyValuePairs *pairs)
{
    if (pairs != NULL)
        ort_pairs_clear(pairs);
    free(pairs);
}
