#include "check/operator_record.h"
#include "inlay/check.h"
#include <stdlib.h>

static bool put(FILE *file, const void *data, size_t bytes)
{
    return bytes == 0 || fwrite(data, 1, bytes, file) == bytes;
}

static bool put_output(FILE *file, const harness_output *output)
{
    const inlay_str *strings = output->data;
    bool ok = put(file, &output->dtype, sizeof output->dtype) && put(file, &output->rank, sizeof output->rank) &&
              put(file, output->dims, output->rank * sizeof output->dims[0]) &&
              put(file, &output->count, sizeof output->count) && put(file, &output->bytes, sizeof output->bytes);

    if (output->dtype != INLAY_STRING)
        return ok && put(file, output->data, (size_t)output->bytes);
    for (int64_t i = 0; ok && i < output->count; i++)
        ok = put(file, &strings[i].bytes, sizeof strings[i].bytes) &&
             put(file, strings[i].data, (size_t)strings[i].bytes);
    return ok;
}

char *operator_record(const harness_result *result, size_t *out_bytes)
{
    char *record = NULL;
    FILE *file = open_memstream(&record, out_bytes);
    bool ok = file != NULL && put(file, &result->out_count, sizeof result->out_count);

    for (uint32_t o = 0; ok && o < result->out_count; o++)
        ok = put_output(file, &result->out[o]);
    if (file != NULL && (fclose(file) != 0 || !ok)) {
        free(record);
        record = NULL;
    }
    return record;
}

void operator_record_write(FILE *file, const char *record, size_t bytes)
{
    static const uint32_t none = 0;

    (void)put(file, record != NULL ? (const void *)record : &none, record != NULL ? bytes : sizeof none);
}

static bool get(FILE *file, void *data, size_t bytes)
{
    return bytes == 0 || fread(data, 1, bytes, file) == bytes;
}

static bool get_output(FILE *file, struct arena *arena, harness_output *output)
{
    inlay_str *strings;

    if (!get(file, &output->dtype, sizeof output->dtype) || !get(file, &output->rank, sizeof output->rank))
        return false;
    INLAY_CHECK(output->rank <= INLAY_MAX_RANK);
    if (!get(file, output->dims, output->rank * sizeof output->dims[0]) ||
        !get(file, &output->count, sizeof output->count) || !get(file, &output->bytes, sizeof output->bytes))
        return false;
    output->data = strings = arena_alloc(arena, (size_t)output->bytes + 1);
    if (output->data == NULL || output->dtype != INLAY_STRING)
        return output->data != NULL && get(file, output->data, (size_t)output->bytes);
    for (int64_t i = 0; i < output->count; i++) {
        char *text = get(file, &strings[i].bytes, sizeof strings[i].bytes)
                         ? arena_alloc(arena, (size_t)strings[i].bytes + 1)
                         : NULL;

        if (text == NULL || !get(file, text, (size_t)strings[i].bytes))
            return false;
        strings[i].data = text;
    }
    return true;
}

bool operator_record_read(FILE *file, struct arena *arena, harness_result *out)
{
    *out = (harness_result){ .out_count = 0 };
    if (!get(file, &out->out_count, sizeof out->out_count))
        return false;
    INLAY_CHECK(out->out_count <= CASE_OUTPUTS);
    for (uint32_t o = 0; o < out->out_count; o++)
        if (!get_output(file, arena, &out->out[o]))
            return false;
    return true;
}
