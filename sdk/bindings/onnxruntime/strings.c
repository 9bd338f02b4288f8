/* Tensors of strings: their texts, and the C++ objects that programs expect as elements. */
#include "ort.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

/* std::string of libstdc++, in which ONNX Runtime's library for Linux and the programs that use its elements agree.
 * Such programs may assign to it: they release its memory by operator delete, which is free(). */
struct ort_string_object {
    char *data; /* local, or from malloc */
    size_t bytes;
    union {
        char local[16];
        size_t capacity; /* without the final 0 */
    } rest;
};

OrtStatus *ort_strings_new(const int64_t *shape, size_t rank, OrtValue **out)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value = NULL;
    inlay_str *strings;
    inlay_status status;
    size_t count;
    OrtStatus *failed;

    *out = NULL;
    ORT_TRY(ort_check_shape(shape, rank, &count));
    strings = calloc(count + 1, sizeof *strings);
    if (strings == NULL)
        return ort_no_memory();
    for (size_t i = 0; i < count; i++)
        strings[i].data = NULL;
    status = inlay_value_borrow(INLAY_STRING, (uint32_t)rank, shape, strings, count * sizeof *strings, &value, &diag);
    failed = status == INLAY_OK ? ort_value_wrap(value, out) : ort_from(status, &diag);
    if (failed != NULL)
        free(strings);
    else
        (*out)->strings = strings;
    return failed;
}

/* Releases the text of an element, which is in the object if there is one. */
static void free_text(OrtValue *value, size_t index)
{
    ort_string_object *object = value->objects != NULL ? &value->objects[index] : NULL;

    if (object == NULL)
        free((char *)(uintptr_t)value->strings[index].data);
    else if (object->data != object->rest.local)
        free(object->data);
}

void ort_strings_free(OrtValue *value)
{
    INLAY_CHECK(value->strings == NULL || value->value != NULL);
    for (int64_t i = 0; value->strings != NULL && i < inlay_value_count(value->value); i++)
        free_text(value, (size_t)i);
    free(value->strings);
    free(value->objects);
    value->strings = NULL;
    value->objects = NULL;
}

void ort_strings_sync(const OrtValue *value)
{
    for (int64_t i = 0; value->objects != NULL && i < inlay_value_count(value->value); i++)
        value->strings[i] = (inlay_str){ value->objects[i].data, value->objects[i].bytes };
    for (size_t i = 0; i < value->item_count; i++)
        if (value->items[i] != NULL)
            ort_strings_sync(value->items[i]);
}

/* The strings of a string tensor. */
static OrtStatus *texts_of(const OrtValue *value, const inlay_str **out, size_t *out_count)
{
    ORT_NEED(value);
    if (value->type != ONNX_TYPE_TENSOR || inlay_value_dtype(value->value) != INLAY_STRING)
        return ort_fail(ORT_FAIL, "the value is not a tensor of strings");
    ort_strings_sync(value);
    *out = inlay_value_data(value->value);
    *out_count = (size_t)inlay_value_count(value->value);
    return NULL;
}

static OrtStatus *check_index(size_t index, size_t count)
{
    if (index >= count)
        return ort_fail(ORT_INVALID_ARGUMENT, "element index is out of bounds: %zu of %zu", index, count);
    return NULL;
}

/* Copies the texts of a run's output, so that the program can change them. */
static OrtStatus *make_writable(OrtValue *value)
{
    const inlay_str *texts;
    OrtValue *copy;
    OrtStatus *failed = NULL;
    inlay_value *from = value->value;
    size_t count;

    ORT_TRY(texts_of(value, &texts, &count));
    INLAY_CHECK(value->strings == NULL || value->strings == texts);
    if (value->strings != NULL)
        return NULL;
    ORT_TRY(ort_strings_new(inlay_value_dims(from), inlay_value_rank(from), &copy));
    for (size_t i = 0; i < count && failed == NULL; i++)
        failed = ort_strings_set(copy, i, texts[i].data, (size_t)texts[i].bytes);
    if (failed == NULL) {
        value->value = copy->value;
        value->strings = copy->strings;
        copy->value = from;
        copy->strings = NULL;
    }
    ort_ReleaseValue(copy);
    return failed;
}

/* Replaces an element by a string of `bytes` zero bytes. */
static OrtStatus *resize_text(OrtValue *value, size_t index, size_t bytes, char **out)
{
    const inlay_str *texts;
    size_t count;
    char *text;

    ORT_TRY(texts_of(value, &texts, &count));
    ORT_TRY(check_index(index, count));
    ORT_TRY(make_writable(value));
    text = bytes < SIZE_MAX ? calloc(1, bytes + 1) : NULL;
    if (text == NULL)
        return ort_no_memory();
    free_text(value, index);
    value->strings[index] = (inlay_str){ text, bytes };
    if (value->objects != NULL)
        value->objects[index] = (ort_string_object){ .data = text, .bytes = bytes, .rest.capacity = bytes };
    *out = text;
    return NULL;
}

/* Creates the objects, which then own the texts. Short texts are inside the object, as libstdc++ has them. */
static OrtStatus *make_objects(OrtValue *value)
{
    const size_t count = (size_t)inlay_value_count(value->value);

    ORT_TRY(make_writable(value));
    if (value->objects != NULL)
        return NULL;
    value->objects = calloc(count + 1, sizeof *value->objects);
    if (value->objects == NULL)
        return ort_no_memory();
    for (size_t i = 0; i < count; i++) {
        ort_string_object *object = &value->objects[i];
        char *text = (char *)(uintptr_t)value->strings[i].data;
        size_t bytes = (size_t)value->strings[i].bytes;

        *object = (ort_string_object){ .data = text, .bytes = bytes };
        if (bytes < sizeof object->rest.local) {
            object->data = object->rest.local;
            if (bytes > 0)
                memcpy(object->data, text, bytes);
            free(text);
        } else {
            object->rest.capacity = bytes;
        }
    }
    ort_strings_sync(value);
    return NULL;
}

OrtStatus *ort_strings_objects(OrtValue *value, void **out)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* programs may read a value from several threads */
    OrtStatus *failed;

    (void)pthread_mutex_lock(&lock);
    failed = make_objects(value);
    (void)pthread_mutex_unlock(&lock);
    if (failed == NULL)
        *out = value->objects;
    return failed;
}

OrtStatus *ort_strings_set(OrtValue *value, size_t index, const char *text, size_t bytes)
{
    char *copy = NULL;

    ORT_TRY(resize_text(value, index, bytes, &copy));
    if (bytes > 0)
        memcpy(copy, text, bytes);
    return NULL;
}

OrtStatus *ort_FillStringTensor(OrtValue *value, const char *const *s, size_t s_len)
{
    const inlay_str *texts;
    size_t count;

    ORT_TRY(texts_of(value, &texts, &count));
    if (s_len != count)
        return ort_fail(ORT_INVALID_ARGUMENT, "input array doesn't equal tensor size: %zu texts for %zu elements",
                        s_len, count);
    if (count > 0)
        ORT_NEED(s);
    for (size_t i = 0; i < count; i++) {
        ORT_NEED(s[i]);
        ORT_TRY(ort_strings_set(value, i, s[i], strlen(s[i])));
    }
    return NULL;
}

OrtStatus *ort_FillStringTensorElement(OrtValue *value, const char *s, size_t index)
{
    ORT_NEED(s);
    return ort_strings_set(value, index, s, strlen(s));
}

OrtStatus *ort_GetResizedStringTensorElementBuffer(OrtValue *value, size_t index, size_t length_in_bytes, char **buffer)
{
    ORT_NEED(buffer);
    return resize_text(value, index, length_in_bytes, buffer);
}

OrtStatus *ort_GetStringTensorDataLength(const OrtValue *value, size_t *len)
{
    const inlay_str *texts;
    size_t count, sum = 0;

    ORT_NEED(len);
    ORT_TRY(texts_of(value, &texts, &count));
    for (size_t i = 0; i < count; i++)
        sum += (size_t)texts[i].bytes;
    *len = sum;
    return NULL;
}

OrtStatus *ort_GetStringTensorContent(const OrtValue *value, void *s, size_t s_len, size_t *offsets, size_t offsets_len)
{
    const inlay_str *texts;
    size_t count, at = 0, total;

    ORT_TRY(texts_of(value, &texts, &count));
    ORT_TRY(ort_GetStringTensorDataLength(value, &total));
    if (offsets_len < count)
        return ort_fail(ORT_FAIL, "offsets buffer is too small: %zu for %zu texts", offsets_len, count);
    if (s_len < total)
        return ort_fail(ORT_FAIL, "output buffer is too small: %zu bytes for %zu", s_len, total);
    if (count > 0)
        ORT_NEED(offsets);
    if (total > 0)
        ORT_NEED(s);
    for (size_t i = 0; i < count; i++) {
        offsets[i] = at;
        if (texts[i].bytes > 0)
            memcpy((char *)s + at, texts[i].data, (size_t)texts[i].bytes);
        at += (size_t)texts[i].bytes;
    }
    INLAY_CHECK(at == total);
    return NULL;
}

OrtStatus *ort_GetStringTensorElementLength(const OrtValue *value, size_t index, size_t *out)
{
    const inlay_str *texts;
    size_t count;

    ORT_NEED(out);
    ORT_TRY(texts_of(value, &texts, &count));
    ORT_TRY(check_index(index, count));
    *out = (size_t)texts[index].bytes;
    return NULL;
}

OrtStatus *ort_GetStringTensorElement(const OrtValue *value, size_t s_len, size_t index, void *s)
{
    const inlay_str *texts;
    size_t count;

    ORT_TRY(texts_of(value, &texts, &count));
    ORT_TRY(check_index(index, count));
    if (s_len < texts[index].bytes)
        return ort_fail(ORT_FAIL, "buffer size is too small for string element: %zu bytes for %llu", s_len,
                        (unsigned long long)texts[index].bytes);
    if (texts[index].bytes > 0) {
        ORT_NEED(s);
        memcpy(s, texts[index].data, (size_t)texts[index].bytes);
    }
    return NULL;
}
