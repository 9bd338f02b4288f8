#include "serve/padding.h"
#include "base/element.h"
#include "serve/datatype.h"
#include "serve/model.h"
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ config.yaml */

inlay_status padding_set_sizes(padding_config *c, const char *text, inlay_diag *diag)
{
    for (const char *at = text; at != NULL;) {
        char *end;
        uint64_t size = strtoull(at, &end, 10);

        if (end == at || *at < '0' || *at > '9' || size == 0 || size > INT32_MAX || c->size_count == PADDING_SIZES ||
            (c->size_count > 0 && size <= c->sizes[c->size_count - 1]) || (*end != ',' && *end != '\0'))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "buckets is at most %d ascending numbers: 16,32,64",
                              PADDING_SIZES);
        c->sizes[c->size_count++] = size;
        at = *end == ',' ? end + 1 : NULL;
    }
    return INLAY_OK;
}

inlay_status padding_set_value(padding_config *c, const char *text, inlay_diag *diag)
{
    size_t name = strcspn(text, "=");
    char *end = NULL;
    int64_t value = text[name] != '\0' ? strtoll(text + name + 1, &end, 10) : 0;

    if (name == 0 || name >= PADDING_NAME || end == NULL || end == text + name + 1 || *end != '\0' ||
        c->value_count == PADDING_VALUES)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "pad: '%.64s' is not INPUT=NUMBER, or there are more than %d",
                          text, PADDING_VALUES);
    (void)snprintf(c->values[c->value_count].input, PADDING_NAME, "%.*s", (int)name, text);
    c->values[c->value_count++].value = value;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ the model's axis */

/* Where an input or output has the axis; 0: nowhere. The first axis is that of the rows. */
static uint32_t find_axis(const inlay_io_info *io, const char *axis)
{
    for (uint32_t d = 1; io->kind == INLAY_KIND_TENSOR && io->rank != INLAY_RANK_UNKNOWN && d < io->rank; d++)
        if (io->dims[d] < 0 && strcmp(io->dim_names[d], axis) == 0)
            return d;
    return 0;
}

/* The one name that inputs have for open sizes besides the first. */
static const char *open_name(const struct model *m, inlay_diag *diag)
{
    const char *found = NULL;

    for (uint32_t k = 0; k < m->input_count; k++) {
        const inlay_io_info *io = &m->inputs[k];

        for (uint32_t d = 1; io->rank != INLAY_RANK_UNKNOWN && d < io->rank; d++) {
            if (io->dims[d] >= 0)
                continue;
            if (io->dim_names[d][0] == '\0' || (found != NULL && strcmp(found, io->dim_names[d]) != 0)) {
                (void)inlay_fail(diag, INLAY_UNSUPPORTED, "buckets: axis %u of input '%s' %s", d, io->name,
                                 found != NULL ? "is another open axis than that of the inputs before it"
                                               : "has no name; give it one with inlay edit");
                return NULL;
            }
            found = io->dim_names[d];
        }
    }
    if (found == NULL)
        (void)inlay_fail(diag, INLAY_UNSUPPORTED, "buckets: the inputs have no open axis besides the first");
    return found;
}

/* Each open size is that of the rows or of the axis, which occurs once. */
static inlay_status check_axes(const struct model *m, const inlay_io_info *io, const char *what, inlay_diag *diag)
{
    uint32_t times = 0;

    if (io->kind != INLAY_KIND_TENSOR || io->rank == INLAY_RANK_UNKNOWN)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "buckets: %s '%s' has no known rank", what, io->name);
    for (uint32_t d = 0; d < io->rank; d++) {
        bool same = io->dims[d] < 0 && strcmp(io->dim_names[d], m->padding.axis) == 0;

        if (io->dims[d] >= 0 || (d == 0 && !same))
            continue;
        if (d == 0 || !same || times++ > 0)
            return inlay_fail(diag, INLAY_UNSUPPORTED,
                              "buckets: axis %u of %s '%s' is open in another way than '%s' of the "
                              "inputs",
                              d, what, io->name, m->padding.axis);
    }
    if (times > 0 && io->dtype == INLAY_STRING)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "buckets: %s '%s' is of texts, which are not padded", what,
                          io->name);
    return INLAY_OK;
}

static inlay_status take_values(struct model *m, inlay_diag *diag)
{
    const padding_config *c = &m->settings.padding;

    for (uint32_t v = 0; v < c->value_count; v++) {
        uint32_t input = inlay_session_find_input(m->session, c->values[v].input);

        if (input == INLAY_NONE || m->padding.input_axes[input] == 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "pad: no input '%s' is padded", c->values[v].input);
        m->padding.values[input] = c->values[v].value;
    }
    return INLAY_OK;
}

inlay_status padding_init(struct model *m, inlay_diag *diag)
{
    struct padding *p = &m->padding;
    const char *axis;

    if (m->settings.padding.size_count == 0)
        return m->settings.padding.value_count == 0
                   ? INLAY_OK
                   : inlay_fail(diag, INLAY_INVALID_ARGUMENT, "pad: without buckets nothing is padded");
    if ((axis = open_name(m, diag)) == NULL)
        return INLAY_UNSUPPORTED;
    p->input_axes = calloc(m->input_count + 1u, sizeof *p->input_axes);
    p->output_axes = calloc(m->output_count + 1u, sizeof *p->output_axes);
    p->values = calloc(m->input_count + 1u, sizeof *p->values);
    if (p->input_axes == NULL || p->output_axes == NULL || p->values == NULL)
        return no_memory(diag, "for the model's inputs");
    p->axis = axis;
    for (uint32_t k = 0; k < m->input_count + m->output_count; k++) {
        bool input = k < m->input_count;
        const inlay_io_info *io = input ? &m->inputs[k] : &m->outputs[k - m->input_count];
        inlay_status status = check_axes(m, io, input ? "input" : "output", diag);

        if (status != INLAY_OK)
            return status;
        *(input ? &p->input_axes[k] : &p->output_axes[k - m->input_count]) = find_axis(io, axis);
    }
    return take_values(m, diag);
}

void padding_deinit(struct padding *p)
{
    free(p->input_axes);
    free(p->output_axes);
    free(p->values);
    *p = (struct padding){ .axis = NULL };
}

/* ------------------------------------------------------------------ requests */

void padding_choose(struct job *j)
{
    const struct model *m = j->model;
    const padding_config *c = &m->settings.padding;
    uint32_t given = 0, wanted = 0, n = 0;

    j->length = j->padded = 0;
    if (m->padding.axis == NULL || j->rows == 0 || j->request->sequence[0] != '\0')
        return;
    for (uint32_t k = 0; k < m->input_count; k++)
        wanted += m->padding.input_axes[k] > 0;
    for (uint32_t i = 0; i < j->request->input_count; i++) {
        const infer_tensor *t = &j->request->inputs[i];
        uint32_t axis = m->padding.input_axes[t->input];

        if (axis == 0)
            continue;
        if (t->bytes == 0 || (given > 0 && (uint64_t)t->dims[axis] != j->length))
            return;
        j->length = (uint64_t)t->dims[axis];
        given++;
    }
    while (n < c->size_count && c->sizes[n] < j->length)
        n++;
    if (given == wanted && n < c->size_count) /* a mask with a default value, not given, would exclude nothing */
        j->padded = c->sizes[n];
}

static void fill(inlay_dtype dtype, int64_t value, uint64_t count, char *out)
{
    const uint32_t bytes = datatype_bytes(dtype);

    if (count == 0)
        return;
    if (value == 0 || !element_put(dtype, out, 0, value)) {
        memset(out, 0, count * bytes);
        return;
    }
    for (uint64_t i = 1; i < count; i++)
        memcpy(out + i * bytes, out, bytes);
}

/* The products of the sizes before and behind the axis. */
static void around(uint32_t rank, const int64_t *dims, uint32_t axis, uint64_t *out_before, uint64_t *out_behind)
{
    *out_before = *out_behind = 1;
    for (uint32_t d = 0; d < rank; d++)
        *(d < axis ? out_before : out_behind) *= d == axis ? 1 : (uint64_t)dims[d];
}

uint64_t padding_write(const struct padding *p, const infer_tensor *t, uint64_t length, char *out)
{
    uint32_t axis = p->axis != NULL ? p->input_axes[t->input] : 0;
    uint64_t before, behind, step = datatype_bytes(t->dtype), own = axis > 0 ? (uint64_t)t->dims[axis] : 0;

    if (axis == 0 || length == 0 || length == own) {
        if (t->bytes > 0)
            memcpy(out, t->data, t->bytes);
        return t->bytes;
    }
    around(t->rank, t->dims, axis, &before, &behind);
    step *= behind;
    for (uint64_t n = 0; n < before; n++) {
        memcpy(out + n * length * step, (const char *)t->data + n * own * step, own * step);
        fill(t->dtype, p->values[t->input], (length - own) * behind, out + (n * length + own) * step);
    }
    return before * length * step;
}

bool padding_cut(infer_output *o, uint32_t axis, uint64_t length, void **scratch, uint64_t *scratch_bytes)
{
    uint64_t before, behind, step, padded = (uint64_t)o->dims[axis], bytes;

    around(o->rank, o->dims, axis, &before, &behind);
    step = behind * datatype_bytes(o->dtype);
    bytes = before * length * step;
    if (before > 1 && bytes > 0) { /* of one row the beginning is it */
        if (*scratch_bytes < bytes) {
            free(*scratch);
            *scratch = malloc(bytes);
            *scratch_bytes = *scratch != NULL ? bytes : 0;
        }
        if (*scratch == NULL)
            return false;
        for (uint64_t n = 0; n < before; n++)
            memcpy((char *)*scratch + n * length * step, (const char *)o->data + n * padded * step, length * step);
        o->data = *scratch;
    }
    o->dims[axis] = (int64_t)length;
    o->count = before * length * behind;
    return true;
}
