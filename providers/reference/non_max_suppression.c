/* NonMaxSuppression: ONNX 10, 11. Per batch and class: boxes above the score threshold, best first; one is kept unless
 * it overlaps a kept one too much. */
#include "instance.h"
#include "args.h"
#include "rank.h"
#include "reference.h"
#include "work.h"

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
    status = arg_state(sizeof(nms_state), out_state, diag);
    if (status == INLAY_OK)
        ((nms_state *)*out_state)->centers = centers != 0;
    return status;
}

/* What the workspace holds: a heap for each worker, a list of kept boxes for each batch and class with its length, and
 * the boxes in corner form. Offsets in bytes. */
typedef struct nms_plan {
    int64_t batches, classes, boxes;
    int64_t room; /* of a list */
    uint64_t kept, lists, counts, corners, bytes;
} nms_plan;

/* Boxes that a list keeps, side by side, so that one is compared with many at once. */
enum { TOGETHER = 16 };
typedef struct nms_kept {
    float y1[TOGETHER], x1[TOGETHER], y2[TOGETHER], x2[TOGETHER], area[TOGETHER];
} nms_kept;

static int64_t nms_kept_room(const nms_plan *plan)
{
    return plan->room / TOGETHER + 1;
}

/* max_output_boxes_per_class, 0 when it is omitted; more than there are boxes is all of them. */
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
    nms_plan *p;
    uint64_t sorting;
    int64_t lists, entries;
    bool fits;

    (void)state;
    if (boxes->rank != 3 || scores->rank != 3 || boxes->dims[2] != 4 || boxes->dims[0] != scores->dims[0] ||
        boxes->dims[1] != scores->dims[2])
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "boxes must be [batch, N, 4] and scores [batch, classes, N]");
    p = plan->plan = calloc(1, sizeof *p);
    if (p == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a plan");
    p->batches = boxes->dims[0];
    p->boxes = boxes->dims[1];
    p->classes = scores->dims[1];
    p->room = p->boxes;
    if (plan->in_count < 3 || plan->in[2].dtype == INLAY_UNDEFINED || plan->in[2].data != NULL)
        p->room = most_boxes(plan->in, plan->in_count, p->boxes);
    fits = !__builtin_mul_overflow(p->batches, p->classes, &lists) &&
           reserve(&p->bytes, p->boxes, plan->max_threads * 2 * sizeof(rank_entry), &sorting) &&
           reserve(&p->bytes, nms_kept_room(p), plan->max_threads * sizeof(nms_kept), &p->kept) &&
           !__builtin_mul_overflow(lists, p->room, &entries) &&
           reserve(&p->bytes, entries, sizeof(int64_t), &p->lists) &&
           reserve(&p->bytes, lists, sizeof(int64_t), &p->counts) &&
           reserve(&p->bytes, boxes->count / 4, sizeof(nms_box), &p->corners);
    if (!fits)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "too many boxes and classes");
    plan->workspace_bytes = p->bytes;
    return INLAY_OK;
}

typedef struct nms_job {
    const nms_plan *plan;
    const nms_box *boxes; /* [batches, boxes] */
    const float *scores;  /* [batches, classes, boxes] */
    rank_entry *sorting;  /* twice the boxes for each worker */
    nms_kept *kept;
    int64_t *lists, *counts;
    int64_t most;
    float overlap, threshold;
    bool has_threshold;
} nms_job;

/* Is intersection over union with one of a block above the limit? Boxes without area overlap nothing, and places that
 * are free have none. */
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

/* The box becomes number `at` of those that are kept. */
static void keep_box(nms_kept *kept, int64_t at, const nms_box *box)
{
    nms_kept *b = &kept[at / TOGETHER];
    const int64_t i = at % TOGETHER;

    if (i == 0)
        *b = (nms_kept){ { 0 }, { 0 }, { 0 }, { 0 }, { 0 } };
    b->y1[i] = box->y1;
    b->x1[i] = box->x1;
    b->y2[i] = box->y2;
    b->x2[i] = box->x2;
    b->area[i] = box->area;
}

/* Units are (batch, class) pairs. */
static inlay_status nms_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const nms_job *job = user;
    const int64_t n = job->plan->boxes;
    rank_entry *sorted = job->sorting + worker * 2 * n;
    nms_kept *kept_boxes = job->kept + worker * nms_kept_room(job->plan);

    for (int64_t unit = begin; unit < end; unit++) {
        const float *scores = job->scores + unit * n;
        const nms_box *boxes = job->boxes + unit / job->plan->classes * n;
        int64_t *kept = job->lists + unit * job->plan->room, count = 0, candidates = 0;

        for (int64_t i = 0; i < n; i++)
            if (scores[i] == scores[i] && (!job->has_threshold || scores[i] > job->threshold))
                sorted[candidates++] = (rank_entry){ rank_key_f32(scores[i]), i };
        rank_order(sorted, candidates, sorted + n);
        for (int64_t c = 0; c < candidates && count < job->most; c++) {
            const int64_t i = sorted[c].index;
            int64_t k = 0;

            while (k < count && !overlaps(&boxes[i], &kept_boxes[k / TOGETHER], job->overlap))
                k += TOGETHER;
            if (k >= count) {
                keep_box(kept_boxes, count, &boxes[i]);
                kept[count++] = i;
            }
        }
        job->counts[unit] = count;
    }
    return INLAY_OK;
}

/* Corners in order, whichever way the model gives them. */
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

static float read_scalar(const kit_call *call, uint32_t i, float otherwise)
{
    return kit_has_input(call, i) && call->in[i].count >= 1 ? *(const float *)call->in[i].data : otherwise;
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
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "max_output_boxes_per_class is not what was planned");
    if (units > 0) {
        job.kept = (nms_kept *)(void *)(workspace + plan->kept);
        job.lists = (int64_t *)(void *)(workspace + plan->lists);
        job.counts = (int64_t *)(void *)(workspace + plan->counts);
        job.overlap = read_scalar(call, 3, 0);
        job.threshold = read_scalar(call, 4, 0);
        job.has_threshold = kit_has_input(call, 4);
        read_boxes(call->in[0].data, plan->batches * plan->boxes, ((const nms_state *)call->state)->centers, boxes);
        INLAY_TRY(kit_parallel(call, units, 4096 / (plan->boxes + 1) + 1, nms_range, &job));
        for (int64_t u = 0; u < units; u++)
            dims[0] += job.counts[u];
    }
    INLAY_TRY(kit_alloc_output(call, 0, 2, dims));
    output = call->out[0].data;
    for (int64_t u = 0; output != NULL && u < units; u++) {
        for (int64_t k = 0; k < job.counts[u]; k++, output += 3) {
            output[0] = u / plan->classes;
            output[1] = u % plan->classes;
            output[2] = job.lists[u * plan->room + k];
        }
    }
done:
    return status;
}

/* Each list is sorted by score; then a box is compared with those kept before it until one overlaps. Boxes that overlap
 * none are kept and meet all, the others about half; once a list is full nobody is compared any more. How many boxes
 * reach the score threshold only the data says: all are expected to. */
static void cost_nms(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const kit_tensor *scores = &shapes->in[1], *output = &shapes->out[0];
    double lists, n, kept, most, seen;

    (void)node;
    if (scores->rank != 3 || scores->count <= 0)
        return;
    lists = (double)(scores->dims[0] * scores->dims[1]);
    n = (double)scores->dims[2];
    kept = (output->count > 0 ? (double)output->count / 3 : lists) / lists;
    most = n;
    if (shapes->in_count > 2 && shapes->in[2].data != NULL)
        most = (double)most_boxes(shapes->in, shapes->in_count, scores->dims[2]);
    seen = kept < 0.9 * most ? n - kept : kept / 2; /* those that are compared and not kept */
    work_cost(shapes, lists * (5 * n + (kept * kept / 2 + (seen < n ? seen : n) * kept / 4) / 8), 2, lists, cost);
}

static const kit_kernel kernels[] = {
    { .op_type = "NonMaxSuppression",
      .flags = KIT_SHAPES_AT_RUN,
      .prepare = prepare_nms,
      .shape = shape_nms,
      .cost = cost_nms,
      .run = run_nms },
};
const kit_table OPERATOR(reference_non_max_suppression) = { kernels, KIT_COUNT(kernels) };
