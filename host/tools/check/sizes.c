#include "check/sizes.h"
#include "inlay/check.h"
#include <string.h>

static const struct size_row {
    const char *op_type;
    uint32_t outputs;
    const char *inputs, *attrs;
} rows[] = {
#define ROW(op, outputs, inputs, attrs) { op, outputs, inputs, attrs },
#include "check/sizes.def"
#undef ROW
};
enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

uint32_t sizes_kind(const case_source *source)
{
    if (source->own != NULL)
        return source->own->example_count > 0 ? SIZES_EXAMPLES : SIZES_NONE;
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (strcmp(rows[i].op_type, source->op_type) == 0)
            return SIZES_ROWS;
    return generate_has_recipe(source->op_type) ? SIZES_NONE : SIZES_ELEMENTWISE;
}

/* Writes the inputs of a row with n as a number. */
static void put_size(const char *inputs, int64_t n, char *text, size_t bytes)
{
    size_t used = 0;

    for (; *inputs != '\0' && used < bytes; inputs++)
        used += *inputs == 'n' ? (size_t)snprintf(text + used, bytes - used, "%lld", (long long)n)
                               : (size_t)snprintf(text + used, bytes - used, "%c", *inputs);
    INLAY_CHECK(used < bytes);
}

void sizes_generate(const case_source *source, int64_t n, uint64_t seed, case_fn fn, void *user)
{
    const case_range range = { .seed = seed, .scale = 1, .quick = true };
    const uint32_t kind = sizes_kind(source);
    char text[300];

    for (size_t i = 0; kind == SIZES_ROWS && i < ROW_COUNT; i++) {
        if (strcmp(rows[i].op_type, source->op_type) != 0)
            continue;
        put_size(rows[i].inputs, n, text, sizeof text);
        if (!generate_one(source, &range, text, NULL, rows[i].outputs, rows[i].attrs, fn, user))
            return;
    }
    if (kind == SIZES_ELEMENTWISE) {
        (void)snprintf(text, sizeof text, "%lld", (long long)n);
        (void)generate_one(source, &range, NULL, text, 0, "", fn, user);
    } else if (kind == SIZES_EXAMPLES) {
        generate_larger_examples(source, &range, n, fn, user);
    }
}
