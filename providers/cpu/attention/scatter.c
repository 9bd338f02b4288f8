/* TensorScatter-24 of rows into a cache [batch, heads, rows, size], as GroupQueryAttention does with new keys and
 * values. write_indices holds the first row for each sequence of the batch. If the cache is an in-place state
 * (append.c), only the new rows are written. */
#include "cpu/region/build.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"

enum { ROW_AXIS = 2 };

static bool parse(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const inlay_value_info *cache = kit_input(node, 0), *update = kit_input(node, 1), *indices = kit_input(node, 2);

    if (!cpu_known_rank(cache, 4, 4, "the cache", why) || !cpu_known_rank(update, 4, 4, "the update", why))
        return false;
    if (!cpu_axis(kit_attr_int(node->info, "axis", -2), 4, &op->axis) || op->axis != ROW_AXIS)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "only axis 2 is supported");
    if (strcmp(kit_attr_string(node->info, "mode", "linear"), "linear") != 0)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "only mode linear is supported");
    if (indices != NULL && (indices->dtype != INLAY_INT64 || indices->rank != 1))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "write_indices is not int64 of rank 1");
    return true;
}

typedef struct scatter_step {
    cpu_native native;
    int64_t batch, heads, rows, row_bytes;
    int64_t limit;          /* rows of the cache */
    int64_t from[3], to[3]; /* bytes from one batch, head and row to the next */
    bool has_indices;
} scatter_step;

/* args: the update, the cache, and write_indices if has_indices. */
static inlay_status run_scatter(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                                uint32_t threads)
{
    const scatter_step *step = (const scatter_step *)(const void *)native;
    const int64_t *indices = step->has_indices ? args[2] : NULL;

    INLAY_CHECK(step->rows <= step->limit);
    (void)state;
    (void)run;
    (void)threads;
    for (int64_t b = 0; b < step->batch; b++) {
        const int64_t at = indices != NULL ? indices[b] : 0;

        if (at < 0 || at > step->limit - step->rows)
            return INLAY_INVALID_ARGUMENT;
        for (int64_t h = 0; h < step->heads; h++) {
            const char *from = (const char *)args[0] + b * step->from[0] + h * step->from[1];
            char *to = (char *)args[1] + b * step->to[0] + h * step->to[1] + at * step->to[2];

            for (int64_t r = 0; r < step->rows; r++)
                memcpy(to + r * step->to[2], from + r * step->from[2], (size_t)step->row_bytes);
        }
    }
    return INLAY_OK;
}

static inlay_status check(const cpu_build *build)
{
    const cpu_op *op = build->op;
    const int64_t *cache = build->dims[op->in[0]], *update = build->dims[op->in[1]];

    for (uint32_t d = 0; d < 4; d++)
        if (d == ROW_AXIS ? update[d] > cache[d] : update[d] != cache[d])
            return inlay_fail(build->diag, INLAY_SHAPE_MISMATCH,
                              "node '%s': update has size %lld on axis %u, the cache %lld", op->name,
                              (long long)update[d], d, (long long)cache[d]);
    if (op->in_count > 2 && op->in[2] != INLAY_NONE && build->dims[op->in[2]][0] != cache[0])
        return inlay_fail(build->diag, INLAY_SHAPE_MISMATCH,
                          "node '%s': write_indices has %lld values for a batch of %lld", op->name,
                          (long long)build->dims[op->in[2]][0], (long long)cache[0]);
    return INLAY_OK;
}

/* The target of the rows: the cache itself if its old content has no other reader, otherwise a copy. */
static inlay_status find_cache(cpu_build *build, const cpu_group *group, cpu_place *out)
{
    const cpu_op *op = build->op;
    const bool in_place = op->appends && build->rooms[group->out] != 0;
    inlay_status status;
    cpu_place cache;
    tensor_layout layout;

    INLAY_TRY(cpu_read_strided(build, op->in[0], &cache));
    if (in_place || (cpu_is_last_use(build, op->in[0]) && layout_is_plain(&cache.layout))) {
        *out = cache;
        return INLAY_OK;
    }
    layout_plain(&layout, 4, build->dims[group->out]);
    layout.type = cpu_type(build, group->out);
    INLAY_TRY(cpu_result_place(build, group->out, &layout, out));
    status = cpu_count(build, group->out) > 0 ? cpu_emit_copy(build, &cache, out) : INLAY_OK;
done:
    return status;
}

static inlay_status lower(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    const int64_t *update = build->dims[op->in[1]], bytes = (int64_t)cpu_type_bytes(cpu_type(build, group->out));
    scatter_step step = { .native = { .run = run_scatter, .wrong = "write_indices are outside the cache" },
                          .batch = update[0],
                          .heads = update[1],
                          .rows = update[2],
                          .row_bytes = update[3] * bytes,
                          .limit = build->dims[op->in[0]][ROW_AXIS],
                          .has_indices = op->in_count > 2 && op->in[2] != INLAY_NONE };
    cpu_place cache, rows, indices;
    inlay_status status;

    INLAY_CHECK(op->in_count >= 2);
    INLAY_TRY(check(build));
    INLAY_TRY(find_cache(build, group, &cache));
    if (cpu_count(build, op->in[1]) > 0) {
        INLAY_TRY(cpu_read_strided(build, op->in[1], &rows));
        if (rows.layout.strides[3] != 1)
            INLAY_TRY(cpu_read_plain(build, op->in[1], &rows));
        if (step.has_indices)
            INLAY_TRY(cpu_read_plain(build, op->in[2], &indices));
        for (uint32_t d = 0; d < 3; d++) {
            step.from[d] = rows.layout.strides[d] * bytes;
            step.to[d] = cache.layout.strides[d] * bytes;
        }
        INLAY_TRY(cpu_emit_step(build, &step.native, sizeof step, (const cpu_place *const[]){ &rows, &cache, &indices },
                                step.has_indices ? 3 : 2));
    }
    status = cpu_set_place(build, group->out, &cache);
done:
    return status;
}

const cpu_family cpu_scatter = { .kind = CPU_FAMILY_SCATTER, .name = "scatter", .parse = parse, .lower = lower };
