/* Checks, when a model is loaded, that a row has the same results in a batch as alone. */
#include "base/element.h"
#include "base/random.h"
#include "inlay/check.h"
#include "codecs/datatype.h"
#include "serve/model/model.h"
#include <stdlib.h>
#include <string.h>

/* The rows of a run. */
typedef struct row_range {
    uint32_t first, count;
} row_range;

/* Creates input k. Each row has its own numbers, the same in every run: masks are all 1; other integers are 0 and 1,
 * which are valid for tokens and positions; floats are -7 to 7, so that products with weights are rounded. */
static inlay_status make_rows(const struct model *model, uint32_t k, const void *user, inlay_value **out_value,
                              inlay_diag *diag)
{
    const row_range *rows = user;
    const inlay_io_info *io = &model->io.inputs[k];
    bool is_mask = strstr(io->name, "mask") != NULL, is_float = element_is_float(io->dtype);
    int64_t dims[INLAY_MAX_RANK];
    uint32_t rank = model_generated_dims(model, k, rows->count, 1, dims);
    inlay_status status = inlay_value_create(io->dtype, rank, dims, out_value, diag);
    int64_t count;

    if (status != INLAY_OK)
        return status;
    count = inlay_value_count(*out_value) / rows->count;
    for (uint32_t row = 0; row < rows->count; row++) {
        uint64_t seed = (uint64_t)k << 32 | (rows->first + row);

        for (int64_t i = 0; i < count; i++) {
            uint64_t bits = random_bits(&seed) >> 32;
            int64_t value = is_float ? (int64_t)(bits % 15) - 7 : is_mask ? 1 : (int64_t)(bits % 2);

            if (!element_put(io->dtype, inlay_value_data(*out_value), row * count + i, value)) {
                inlay_value_unref(*out_value);
                *out_value = NULL;
                return inlay_fail(diag, INLAY_UNSUPPORTED, "input '%s' has no numbers", io->name);
            }
        }
    }
    return INLAY_OK;
}

/* Bytes of a row of output k of the last run, which had `rows` rows; 0: it has no such rows. */
static uint64_t output_bytes(const struct model *model, const struct instance *instance, uint32_t k, uint32_t rows)
{
    const inlay_value *value = instance_output(model, instance, k);

    if (value == NULL || inlay_value_kind(value) != INLAY_KIND_TENSOR || inlay_value_dtype(value) == INLAY_STRING ||
        inlay_value_rank(value) == 0 || inlay_value_dims(value)[0] != rows || inlay_value_data(value) == NULL)
        return 0;
    return (uint64_t)inlay_value_count(value) * datatype_bytes(inlay_value_dtype(value)) / rows;
}

/* Runs the model on these rows. Returns the bytes of a row of all outputs; 0: it failed, or has no such rows. */
static uint64_t run_rows(const struct model *model, struct instance *instance, uint32_t first, uint32_t count)
{
    const row_range rows = { first, count };
    uint64_t bytes = 0;

    if (instance_run_generated(model, instance, make_rows, &rows, NULL) != INLAY_OK)
        return 0;
    for (uint32_t k = 0; k < model->io.output_count; k++) {
        uint64_t more = output_bytes(model, instance, k, count);

        if (more == 0)
            return 0;
        bytes += more;
    }
    return bytes;
}

/* Copies the outputs of the last run, row by row. */
static void copy_rows(const struct model *model, const struct instance *instance, uint32_t rows, char *to)
{
    for (uint32_t row = 0; row < rows; row++) {
        for (uint32_t k = 0; k < model->io.output_count; k++) {
            uint64_t bytes = output_bytes(model, instance, k, rows);

            memcpy(to, (const char *)inlay_value_data(instance_output(model, instance, k)) + row * bytes, bytes);
            to += bytes;
        }
    }
}

bool row_check(const struct model *model, struct instance *instance, uint32_t rows)
{
    uint64_t bytes = run_rows(model, instance, 0, 1);
    char *alone = bytes > 0 ? malloc(rows * bytes) : NULL, *together = bytes > 0 ? malloc(rows * bytes) : NULL;
    bool same = alone != NULL && together != NULL;

    INLAY_CHECK(rows > 1);
    for (uint32_t row = 0; same && row < rows; row++) {
        same = run_rows(model, instance, row, 1) == bytes;
        if (same)
            copy_rows(model, instance, 1, alone + row * bytes);
    }
    for (uint32_t count = 2; same && count <= rows; count++) {
        same = run_rows(model, instance, 0, count) == bytes;
        if (same)
            copy_rows(model, instance, count, together);
        same = same && memcmp(alone, together, count * bytes) == 0;
    }
    free(alone);
    free(together);
    return same;
}
