/* NonMaxSuppression: ONNX 10, 11. For each batch and class: boxes above the score threshold in descending order; a box
 * is kept unless it overlaps a kept one too much. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/args.h"
#include "operators/rank.h"
#include "operators/operators.h"
#include "operators/work.h"

typedef struct nms_state {
    bool centers; /* boxes are [x, y, width, height] instead of two corners [y1, x1, y2, x2] */
} nms_state;

typedef struct nms_box {
    float y1, x1, y2, x2, area;
} nms_box;

static inlay_status prepare_nms(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const int64_t centers = kit_attr_int(node->info, "center_point_box", 0);
    inlay_status status;

    if (centers != 0 && centers != 1)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "center_point_box is %lld", (long long)centers);
    status = arg_allocate_state(sizeof(nms_state), out_state, diag);
    if (status == INLAY_OK)
        ((nms_state *)*out_state)->centers = centers != 0;
    return status;
}

/* Offsets in bytes in the workspace. Entries for sorting come first, for each worker, at offset 0. They are followed by
 * the kept boxes of each worker, a list of the kept boxes' indices for each batch and class, the lengths of these
 * lists, and the boxes as corners. */
typedef struct nms_plan {
    int64_t batches, classes, boxes;
    int64_t room; /* capacity of a list */
    uint64_t kept, lists, counts, corners, bytes;
} nms_plan;

/* TOGETHER kept boxes, stored as arrays, so that a box is compared with all of them at once. */
enum { TOGETHER = 16 };
typedef struct nms_kept {
    float y1[TOGETHER], x1[TOGETHER], y2[TOGETHER], x2[TOGETHER], area[TOGETHER];
} nms_kept;

static int64_t nms_kept_room(const nms_plan *plan)
{
    return plan->room / TOGETHER + 1;
}

/* Returns max_output_boxes_per_class, limited to the number of boxes; 0 if the input is omitted. */
static int64_t most_boxes(const kit_tensor *in, uint32_t in_count, int64_t boxes)
{
    int64_t limit = 0;

    if (in_count > 2 && in[2].dtype == INLAY_INT64 && in[2].count >= 1)
        limit = *(const int64_t *)in[2].data;
    return limit < 0 ? 0 : limit < boxes ? limit : boxes;
}

static bool reserve(uint64_t *total, int64_t count, uint64_t each, uint64_t *out_offset)
{
    uint64_t bytes;

    *out_offset = *total;
    return !__builtin_mul_overflow((uint64_t)count, each, &bytes) && !__builtin_add_overflow(*total, bytes, total);
}

static inlay_status shape_nms(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *boxes = &plan->in[0], *scores = &plan->in[1];
    nms_plan *nms;
    uint64_t sorting;
    int64_t lists, entries;
    bool fits;

    (void)state;
    if (boxes->rank != 3 || scores->rank != 3 || boxes->dims[2] != 4 || boxes->dims[0] != scores->dims[0] ||
        boxes->dims[1] != scores->dims[2])
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "boxes must be [batch, N, 4] and scores [batch, classes, N]");
    nms = plan->plan = calloc(1, sizeof *nms);
    if (nms == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a plan");
    nms->batches = boxes->dims[0];
    nms->boxes = boxes->dims[1];
    nms->classes = scores->dims[1];
    nms->room = nms->boxes;
    if (plan->in_count < 3 || plan->in[2].dtype == INLAY_UNDEFINED || plan->in[2].data != NULL)
        nms->room = most_boxes(plan->in, plan->in_count, nms->boxes);
    fits = !__builtin_mul_overflow(nms->batches, nms->classes, &lists) &&
           reserve(&nms->bytes, nms->boxes, plan->max_threads * 2 * sizeof(rank_entry), &sorting) &&
           reserve(&nms->bytes, nms_kept_room(nms), plan->max_threads * sizeof(nms_kept), &nms->kept) &&
           !__builtin_mul_overflow(lists, nms->room, &entries) &&
           reserve(&nms->bytes, entries, sizeof(int64_t), &nms->lists) &&
           reserve(&nms->bytes, lists, sizeof(int64_t), &nms->counts) &&
           reserve(&nms->bytes, boxes->count / 4, sizeof(nms_box), &nms->corners);
    if (!fits)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                          "%lld boxes of %lld classes in %lld batches need more memory than can be addressed",
                          (long long)nms->boxes, (long long)nms->classes, (long long)nms->batches);
    plan->workspace_bytes = nms->bytes;
    return INLAY_OK;
}

typedef struct nms_job {
    const nms_plan *plan;
    const nms_box *boxes; /* [batches, boxes] */
    const float *scores;  /* [batches, classes, boxes] */
    rank_entry *sorting;  /* [workers][2 * boxes] */
    nms_kept *kept;
    int64_t *lists, *counts;
    int64_t most;
    float overlap, threshold;
    bool has_threshold;
} nms_job;

/* Returns whether the intersection over union with any box of a block exceeds the limit. Boxes without area, including
 * unused entries, overlap nothing. */
static bool overlaps(const nms_box *box, const nms_kept *kept, float limit)
{
    uint32_t any = 0;

    for (int i = 0; i < TOGETHER; i++) {
        const float y1 = box->y1 > kept->y1[i] ? box->y1 : kept->y1[i],
                    y2 = box->y2 < kept->y2[i] ? box->y2 : kept->y2[i];
        const float x1 = box->x1 > kept->x1[i] ? box->x1 : kept->x1[i],
                    x2 = box->x2 < kept->x2[i] ? box->x2 : kept->x2[i];
        const float shared = (y2 - y1) * (x2 - x1), both = box->area + kept->area[i] - shared;

        any |= (uint32_t)((y2 > y1) & (x2 > x1) & (box->area > 0) & (kept->area[i] > 0) & (both > 0) &
                          (shared / both > limit));
    }
    return any != 0;
}

/* Stores the box as number `at` of the kept ones. */
static void keep_box(nms_kept *kept, int64_t at, const nms_box *box)
{
    nms_kept *block = &kept[at / TOGETHER];
    const int64_t lane = at % TOGETHER;

    INLAY_CHECK(at >= 0);
    if (lane == 0)
        *block = (nms_kept){ { 0 }, { 0 }, { 0 }, { 0 }, { 0 } };
    block->y1[lane] = box->y1;
    block->x1[lane] = box->x1;
    block->y2[lane] = box->y2;
    block->x2[lane] = box->x2;
    block->area[lane] = box->area;
}

/* A unit of work is a (batch, class) pair. */
static inlay_status nms_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const nms_job *job = user;
    const int64_t box_count = job->plan->boxes;
    rank_entry *sorted = job->sorting + worker * 2 * box_count;
    nms_kept *kept_boxes = job->kept + worker * nms_kept_room(job->plan);

    INLAY_CHECK(job->most <= job->plan->room);
    for (int64_t unit = begin; unit < end; unit++) {
        const float *scores = job->scores + unit * box_count;
        const nms_box *boxes = job->boxes + unit / job->plan->classes * box_count;
        int64_t *kept = job->lists + unit * job->plan->room, count = 0, candidates = 0;

        for (int64_t box = 0; box < box_count; box++)
            if (scores[box] == scores[box] && (!job->has_threshold || scores[box] > job->threshold))
                sorted[candidates++] = (rank_entry){ rank_key_f32(scores[box]), box };
        rank_order(sorted, candidates, sorted + box_count);
        for (int64_t candidate = 0; candidate < candidates && count < job->most; candidate++) {
            const int64_t box = sorted[candidate].index;
            int64_t compared = 0;

            while (compared < count && !overlaps(&boxes[box], &kept_boxes[compared / TOGETHER], job->overlap))
                compared += TOGETHER;
            if (compared >= count) {
                keep_box(kept_boxes, count, &boxes[box]);
                kept[count++] = box;
            }
        }
        job->counts[unit] = count;
    }
    return INLAY_OK;
}

/* Reads boxes in either form and orders their corners. */
static void read_boxes(const float *from, int64_t count, bool centers, nms_box *to)
{
    for (int64_t i = 0; i < count; i++, from += 4) {
        float y1 = from[0], x1 = from[1], y2 = from[2], x2 = from[3], swap;

        if (centers) {
            y1 = from[1] - from[3] / 2;
            y2 = from[1] + from[3] / 2;
            x1 = from[0] - from[2] / 2;
            x2 = from[0] + from[2] / 2;
        }
        if (y1 > y2) {
            swap = y1;
            y1 = y2;
            y2 = swap;
        }
        if (x1 > x2) {
            swap = x1;
            x1 = x2;
            x2 = swap;
        }
        to[i] = (nms_box){ y1, x1, y2, x2, (y2 - y1) * (x2 - x1) };
    }
}

static float read_scalar(const kit_call *call, uint32_t input, float otherwise)
{
    return kit_has_input(call, input) && call->in[input].count >= 1 ? *(const float *)call->in[input].data : otherwise;
}

static inlay_status run_nms(const kit_call *call)
{
    const nms_plan *plan = call->plan;
    char *workspace = call->workspace;
    nms_box *boxes = (nms_box *)(void *)(workspace + plan->corners);
    nms_job job = { .plan = plan, .boxes = boxes, .scores = call->in[1].data, .sorting = call->workspace };
    const int64_t units = plan->batches * plan->classes;
    int64_t dims[2] = { 0, 3 }, *output;
    inlay_status status = INLAY_OK;

    job.most = most_boxes(call->in, call->in_count, plan->boxes);
    if (job.most > plan->room)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "max_output_boxes_per_class is larger than planned");
    if (units > 0) {
        job.kept = (nms_kept *)(void *)(workspace + plan->kept);
        job.lists = (int64_t *)(void *)(workspace + plan->lists);
        job.counts = (int64_t *)(void *)(workspace + plan->counts);
        job.overlap = read_scalar(call, 3, 0);
        job.threshold = read_scalar(call, 4, 0);
        job.has_threshold = kit_has_input(call, 4);
        read_boxes(call->in[0].data, plan->batches * plan->boxes, ((const nms_state *)call->state)->centers, boxes);
        INLAY_TRY(kit_parallel(call, units, 4096 / (plan->boxes + 1) + 1, nms_range, &job));
        for (int64_t unit = 0; unit < units; unit++)
            dims[0] += job.counts[unit];
    }
    INLAY_TRY(kit_alloc_output(call, 0, 2, dims));
    output = call->out[0].data;
    for (int64_t unit = 0; output != NULL && unit < units; unit++) {
        for (int64_t position = 0; position < job.counts[unit]; position++, output += 3) {
            output[0] = unit / plan->classes;
            output[1] = unit % plan->classes;
            output[2] = job.lists[unit * plan->room + position];
        }
    }
done:
    return status;
}

/* Each list is sorted by score; then a box is compared with the kept boxes until one overlaps. A box that is kept
 * itself is compared with all kept boxes, any other box with about half of them. After a list is full, no more boxes
 * are compared. The number of boxes that exceed the score threshold depends on data; the estimate assumes all boxes. */
static void cost_nms(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const kit_tensor *scores = &shapes->in[1], *output = &shapes->out[0];
    double lists, boxes, kept, limit, rejected;

    (void)node;
    if (scores->rank != 3 || scores->count <= 0)
        return;
    lists = (double)(scores->dims[0] * scores->dims[1]);
    boxes = (double)scores->dims[2];
    kept = (output->count > 0 ? (double)output->count / 3 : lists) / lists;
    limit = boxes;
    if (shapes->in_count > 2 && shapes->in[2].data != NULL)
        limit = (double)most_boxes(shapes->in, shapes->in_count, scores->dims[2]);
    rejected = kept < 0.9 * limit ? boxes - kept : kept / 2; /* boxes that are compared and not kept */
    work_cost(shapes, lists * (5 * boxes + (kept * kept / 2 + (rejected < boxes ? rejected : boxes) * kept / 4) / 8), 2,
              lists, cost);
}

static const kit_kernel kernels[] = {
    { .op_type = "NonMaxSuppression",
      .flags = KIT_SHAPES_AT_RUN,
      .prepare = prepare_nms,
      .shape = shape_nms,
      .cost = cost_nms,
      .run = run_nms },
};
const kit_table OPERATOR(operators_non_max_suppression) = { kernels, KIT_COUNT(kernels) };
