/* boxes.c - YoloBoxes: converts predictions of detectors to boxes, with non-maximum suppression. */
#include "prepost/text/lines.h"
#include "inlay/check.h"
#include "prepost/prepost.h"
#include <math.h>
#include <stdio.h>

static const char *const layouts[] = { "v8", "v5", "end", "detr" };
enum { V8, V5, END, DETR, LAYOUTS };
/* Numbers of a prediction before its classes; for END a score and a class follow, for V5 the confidence is included. */
static const int64_t box_numbers[LAYOUTS] = { 4, 5, 4, 4 };
enum { MAX_CANDIDATES = 30000 };

typedef struct boxes_state {
    int layout;
    bool agnostic, rotated;
    float score, iou, scale_x, scale_y;
    int64_t most, classes, points;
    struct lines labels; /* must be last, see lines.h */
} boxes_state;

struct box {
    float x0, y0, x1, y1, score; /* rotated: centre, width and height */
    float angle;
    int32_t class, index; /* index of the prediction: of boxes with equal scores the first one is better */
};

/* Predictions as rows of a matrix: element k of prediction i is data[i * row + k * column]. */
struct predictions {
    const float *data;
    int64_t count, width, row, column; /* row, column: steps between predictions and between elements of one */
};

static struct predictions view_of(const kit_tensor *input, int layout)
{
    const int64_t *dims = input->dims + (input->rank - 2);

    INLAY_CHECK(input->rank >= 2);
    return layout == V8 ? (struct predictions){ input->data, dims[1], dims[0], 1, dims[1] }
                        : (struct predictions){ input->data, dims[0], dims[1], dims[1], 1 };
}

static bool is_worse(const struct box *a, const struct box *b)
{
    return a->score != b->score ? a->score < b->score : a->index > b->index;
}

/* Restores a min-heap: its root is the worst box, which is replaced when there are too many. */
static void sift(struct box *heap, int64_t count, int64_t at)
{
    const struct box moved = heap[at];

    INLAY_CHECK(at < count);
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && is_worse(&heap[child + 1], &heap[child]))
            child++;
        if (!is_worse(&heap[child], &moved))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static void raise(struct box *heap, int64_t at)
{
    const struct box moved = heap[at];

    for (int64_t parent; at > 0 && is_worse(&moved, &heap[parent = (at - 1) / 2]); at = parent)
        heap[at] = heap[parent];
    heap[at] = moved;
}

static void add(struct box *heap, int64_t *count, int64_t room, const struct box *box)
{
    INLAY_CHECK(*count <= room);
    if (*count < room) {
        heap[(*count)++] = *box;
        raise(heap, *count - 1);
    } else if (is_worse(&heap[0], box)) {
        heap[0] = *box;
        sift(heap, room, 0);
    }
}

/* Numbers of a prediction that follow its box and its classes. */
static int64_t extra_numbers(const boxes_state *state, int64_t width)
{
    const int64_t scored = state->layout == END ? 2 : state->classes;

    return scored > 0 ? width - box_numbers[state->layout] - scored : 0;
}

/* Sets score and class of a prediction. False: its scores are not probabilities, or its class is not a class. */
static bool read_score(const boxes_state *state, const float *at, int64_t column, int64_t classes, struct box *box)
{
    const int64_t first = box_numbers[state->layout];
    const float confidence = state->layout == V5 ? at[4 * column] : 1;
    bool good = confidence >= -0.001f && confidence <= 1.001f;

    if (state->layout == END) {
        const float class = at[5 * column];

        box->score = at[4 * column];
        good = box->score >= -0.001f && box->score <= 1.001f && class >= -1 && class < 1e6f;
        box->class = good ? (int32_t) class : 0;
        return good && (box->class < 0 || state->classes == 0 || box->class < state->classes);
    }
    for (int64_t k = 0; k < classes; k++) {
        const float score = at[(first + k) * column] * confidence;

        good = good && score >= -0.001f && score <= 1.001f;
        if (score > box->score) {
            box->score = score;
            box->class = (int32_t)k;
        }
    }
    return good;
}

/* Collects the predictions above the score, best first. */
static inlay_status collect(const boxes_state *state, const struct predictions *predictions, struct box *list,
                            int64_t *out_count, inlay_diag *diag)
{
    const int64_t extra = extra_numbers(state, predictions->width), column = predictions->column;
    const int64_t classes = predictions->width - box_numbers[state->layout] - extra;
    const bool corners = state->layout == END;
    int64_t count = 0;

    for (int64_t i = 0; i < predictions->count; i++) {
        const float *at = predictions->data + i * predictions->row;
        const float x = at[0] * state->scale_x, y = at[column] * state->scale_y,
                    width = at[2 * column] * state->scale_x, height = at[3 * column] * state->scale_y;
        struct box box = { .score = -1, .index = (int32_t)i };

        if (!read_score(state, at, column, classes, &box))
            return inlay_fail(
                diag, INLAY_INVALID_ARGUMENT,
                "YoloBoxes: prediction %lld has a score of %.6g for class %d; scores are from 0 to 1: the "
                "model has another layout than %s with %lld classes",
                (long long)i, (double)box.score, (int)box.class, layouts[state->layout],
                (long long)(state->layout == END ? state->classes : classes));
        if (!(box.score > state->score) || box.class < 0)
            continue;
        if (state->rotated || corners) {
            box.x0 = x;
            box.y0 = y;
            box.x1 = width;
            box.y1 = height;
            box.angle = state->rotated ? at[(predictions->width - 1) * column] : 0;
        } else {
            box.x0 = x - width / 2;
            box.y0 = y - height / 2;
            box.x1 = x + width / 2;
            box.y1 = y + height / 2;
        }
        add(list, &count, MAX_CANDIDATES, &box);
    }
    for (int64_t left = count; left > 1;) { /* heap sort: move the worst to the end */
        const struct box worst = list[0];

        list[0] = list[--left];
        sift(list, left, 0);
        list[left] = worst;
    }
    *out_count = count;
    return INLAY_OK;
}

static float area(const struct box *box)
{
    const float width = box->x1 - box->x0, height = box->y1 - box->y0;

    return width > 0 && height > 0 ? width * height : 0;
}

static float overlap(const struct box *a, const struct box *b)
{
    const struct box both = { .x0 = a->x0 > b->x0 ? a->x0 : b->x0,
                              .y0 = a->y0 > b->y0 ? a->y0 : b->y0,
                              .x1 = a->x1 < b->x1 ? a->x1 : b->x1,
                              .y1 = a->y1 < b->y1 ? a->y1 : b->y1 };
    const float shared = area(&both), all = area(a) + area(b) - shared;

    return all > 0 ? shared / all : 0;
}

/* The overlap of rotated boxes: 1 minus Hellinger's distance of the normal distributions that have the boxes'
 * moments. */
static float rotated_overlap(const struct box *p, const struct box *q)
{
    double a[2], b[2], c[2];
    const struct box *boxes[2] = { p, q };
    double sum_a, sum_b, sum_c, det, dx, dy, distance;

    for (int i = 0; i < 2; i++) {
        const double w = (double)boxes[i]->x1 * (double)boxes[i]->x1 / 12,
                     h = (double)boxes[i]->y1 * (double)boxes[i]->y1 / 12;
        const double cosine = cos((double)boxes[i]->angle), sine = sin((double)boxes[i]->angle);

        a[i] = w * cosine * cosine + h * sine * sine;
        b[i] = w * sine * sine + h * cosine * cosine;
        c[i] = (w - h) * cosine * sine;
    }
    sum_a = a[0] + a[1];
    sum_b = b[0] + b[1];
    sum_c = c[0] + c[1];
    dx = (double)p->x0 - (double)q->x0;
    dy = (double)p->y0 - (double)q->y0;
    det = sum_a * sum_b - sum_c * sum_c + 1e-7;
    distance =
        (sum_a * dy * dy + sum_b * dx * dx - 2 * sum_c * dx * dy) / det / 4 +
        log(det / (4 * sqrt(fmax(a[0] * b[0] - c[0] * c[0], 0) * fmax(a[1] * b[1] - c[1] * c[1], 0)) + 1e-7) + 1e-7) /
            2;
    return (float)(1 - sqrt(1 - exp(-fmin(fmax(distance, 1e-7), 100)) + 1e-7));
}

/* Non-maximum suppression: keeps boxes that do not overlap a better one of their class; returns their number. */
static int64_t suppress(const boxes_state *state, struct box *list, int64_t count)
{
    int64_t kept = 0;

    if (state->layout == END || state->layout == DETR) /* the model itself suppresses */
        return count < state->most ? count : state->most;

    for (int64_t i = 0; i < count && kept < state->most; i++) {
        bool good = true;

        for (int64_t k = 0; good && k < kept; k++)
            good = (!state->agnostic && list[k].class != list[i].class) ||
                   !((state->rotated ? rotated_overlap : overlap)(&list[k], &list[i]) > state->iou);
        if (good)
            list[kept++] = list[i];
    }
    return kept;
}

static float within(float value, float most)
{
    return value > 0 ? (value < most ? value : most) : 0;
}

/* Maps a box from the letterbox back to the image. place: scale, left, top, width, height. */
static void unframe(struct box *box, bool rotated, const float *place)
{
    if (rotated) {
        box->x0 = (box->x0 - place[1]) / place[0];
        box->y0 = (box->y0 - place[2]) / place[0];
        box->x1 /= place[0];
        box->y1 /= place[0];
        return;
    }
    box->x0 = within((box->x0 - place[1]) / place[0], place[3]);
    box->x1 = within((box->x1 - place[1]) / place[0], place[3]);
    box->y0 = within((box->y0 - place[2]) / place[0], place[4]);
    box->y1 = within((box->y1 - place[2]) / place[0], place[4]);
}

static inlay_status infer(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_dim dims[2] = { prepost_open(), prepost_fixed(6) };
    inlay_status status =
        prepost_want_rank(in, 0, 2, 3, "[1, 4 + classes, predictions], or for v5 [1, predictions, 5 + classes]", diag);

    (void)ctx;
    if (status == INLAY_OK)
        status = prepost_want_rank(in, 1, 1, 1, "[5], the second output of Letterbox", diag);
    if (status == INLAY_OK)
        status = prepost_set(in, 0, 2, dims);
    if (status == INLAY_OK)
        status = prepost_set(in, 2, 2, (inlay_dim[]){ prepost_open(), prepost_open() });
    return status == INLAY_OK ? prepost_set(in, 1, 1, dims) : status;
}

static bool supports(const kit_node *node, kit_refusal *why)
{
    const int64_t most = kit_attr_int(node->info, "most", 300), points = kit_attr_int(node->info, "points", 0);

    if (points != 0 && points != 2 && points != 3)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use 0, 2 or 3", "points is %lld", (long long)points);

    if (most < 1 || most > MAX_CANDIDATES)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use 1 to 30000", "most is %lld", (long long)most);
    return prepost_one_of(node, "layout", "v8", layouts, LAYOUTS, why);
}

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    struct lines *lines = lines_create(node->info, "labels", offsetof(boxes_state, labels));
    boxes_state *state;

    if (lines == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "YoloBoxes");
    state = (boxes_state *)(void *)((char *)lines - offsetof(boxes_state, labels));
    state->layout = prepost_word(kit_attr_string(node->info, "layout", "v8"), layouts, LAYOUTS);
    state->agnostic = kit_attr_int(node->info, "agnostic", 0) != 0;
    state->score = (float)kit_attr_float(node->info, "score", 0.25);
    state->iou = (float)kit_attr_float(node->info, "iou", 0.45);
    state->most = kit_attr_int(node->info, "most", 300);
    state->classes = kit_attr_int(node->info, "classes", 0);
    state->points = kit_attr_int(node->info, "points", 0);
    state->rotated = kit_attr_int(node->info, "rotated", 0) != 0;
    state->scale_x = (float)kit_attr_float(node->info, "scale_x", 1);
    state->scale_y = (float)kit_attr_float(node->info, "scale_y", 1);
    *out_state = state;
    return INLAY_OK;
}

static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    (void)node;
    prepost_cost_elements(cost, shapes, 5000, 6, 7e5);
}

static inlay_status shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const boxes_state *boxes = state;
    const kit_tensor *input = &plan->in[0];
    struct predictions predictions;
    int64_t least, extra;

    if (input->count < 0 || (input->rank != 2 && input->rank != 3) || (input->rank == 3 && input->dims[0] != 1))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "YoloBoxes: the predictions must be of one image: [1, 4 + classes, predictions], or for v5 "
                          "[1, predictions, 5 + classes]");
    predictions = view_of(input, boxes->layout);
    least = boxes->layout == END ? 6 : box_numbers[boxes->layout] + (boxes->classes > 0 ? boxes->classes : 1);
    extra = extra_numbers(boxes, predictions.width);
    if (predictions.width < least || predictions.count > INT32_MAX)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "YoloBoxes: %lld numbers per prediction; layout %s with %lld classes needs %lld or more",
                          (long long)predictions.width, layouts[boxes->layout], (long long)boxes->classes,
                          (long long)least);
    if ((boxes->points > 0 && extra % boxes->points != 0) || (boxes->rotated && extra < 1))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "YoloBoxes: %lld numbers after the classes are no %s",
                          (long long)extra, boxes->rotated ? "angle" : "key points");
    if (plan->in_count > 1 && plan->in[1].dtype != INLAY_UNDEFINED && plan->in[1].count != 5)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "YoloBoxes: place must have 5 numbers, the second output of Letterbox");
    plan->workspace_bytes =
        (uint64_t)(predictions.count < MAX_CANDIDATES ? predictions.count : MAX_CANDIDATES) * sizeof(struct box);
    return INLAY_OK;
}

static inlay_status put_class(const kit_call *call, const boxes_state *state, int32_t class, inlay_str *to)
{
    char number[16];

    if ((uint32_t) class < state->labels.count)
        return prepost_put_string(call, to, state->labels.list[class].data, state->labels.list[class].bytes);
    return prepost_put_string(call, to, number, (size_t)snprintf(number, sizeof number, "%d", class));
}

/* Writes the numbers after the classes of a prediction; key points are moved back from the letterbox. */
static void put_extra(const boxes_state *state, const struct predictions *predictions, const struct box *box,
                      const float *place, float *to)
{
    const int64_t extra = extra_numbers(state, predictions->width);
    const float *at =
        predictions->data + box->index * predictions->row + (predictions->width - extra) * predictions->column;

    for (int64_t k = 0; k < extra; k++) {
        const int64_t axis = state->points > 0 ? k % state->points : 2;

        to[k] = at[k * predictions->column];
        if (axis < 2)
            to[k] *= axis == 0 ? state->scale_x : state->scale_y;
        if (axis < 2 && place != NULL)
            to[k] = (to[k] - place[1 + axis]) / place[0];
    }
}

static inlay_status run(const kit_call *call)
{
    const boxes_state *state = call->state;
    const struct predictions predictions = view_of(&call->in[0], state->layout);
    const float *place = kit_has_input(call, 1) ? call->in[1].data : NULL;
    struct box *list = call->workspace;
    int64_t count = 0, dims[2] = { 0, 6 }, extra_dims[2] = { 0, extra_numbers(state, predictions.width) };
    inlay_status status;

    INLAY_TRY(collect(state, &predictions, list, &count, call->diag));
    count = dims[0] = extra_dims[0] = suppress(state, list, count);
    for (int64_t i = 0; i < count && place != NULL; i++)
        unframe(&list[i], state->rotated, place);
    INLAY_TRY(kit_alloc_output(call, 0, 2, dims));
    INLAY_TRY(kit_alloc_output(call, 1, 1, dims));
    if (kit_has_output(call, 2))
        INLAY_TRY(kit_alloc_output(call, 2, 2, extra_dims));
    for (int64_t i = 0; i < count; i++) {
        const struct box *box = &list[i];
        const float row[6] = { box->x0, box->y0, box->x1, box->y1, box->score, (float)box->class };

        if (kit_has_output(call, 0))
            memcpy((float *)call->out[0].data + 6 * i, row, sizeof row);
        if (kit_has_output(call, 1))
            INLAY_TRY(put_class(call, state, box->class, (inlay_str *)call->out[1].data + i));
        if (kit_has_output(call, 2))
            put_extra(state, &predictions, box, place, (float *)call->out[2].data + i * extra_dims[1]);
    }
done:
    return status;
}

/* Three predictions with two classes; the second overlaps the first. */
static const int64_t three_dims[] = { 1, 6, 3 }, kept_dims[] = { 2, 6 }, named_dims[] = { 2 }, framed_dims[] = { 5 };
static const float three[] = { 10, 11, 40, 10, 10, 40, 8, 8, 4, 8, 8, 4, 0.5f, 0.75f, 0.1f, 0.1f, 0.1f, 0.5f };
static const float kept[] = { 7, 6, 15, 14, 0.75f, 0, 38, 38, 42, 42, 0.5f, 1 };
static const float kept_back[] = { 10, 12, 26, 28, 0.75f, 0, 72, 76, 80, 80, 0.5f, 1 };
static const float framed[] = { 0.5f, 2, 0, 80, 80 };
static const inlay_str named[] = { PREPOST_STR("cat"), PREPOST_STR("dog") },
                       numbered[] = { PREPOST_STR("0"), PREPOST_STR("1") };
static const inlay_tensor_view three_view[] = { PREPOST_VIEW(three, three_dims, INLAY_FLOAT) };
static const inlay_tensor_view framed_view[] = { PREPOST_VIEW(three, three_dims, INLAY_FLOAT),
                                                 PREPOST_VIEW(framed, framed_dims, INLAY_FLOAT) };
static const inlay_tensor_view kept_view[] = { PREPOST_VIEW(kept, kept_dims, INLAY_FLOAT),
                                               PREPOST_VIEW(named, named_dims, INLAY_STRING) };
static const inlay_tensor_view back_view[] = { PREPOST_VIEW(kept_back, kept_dims, INLAY_FLOAT),
                                               PREPOST_VIEW(numbered, named_dims, INLAY_STRING) };
static const inlay_attr_info with_labels[] = { PREPOST_ATTR_STRING("labels", "cat\ndog\n") };
static const inlay_attr_info without[] = { PREPOST_ATTR_FLOAT("score", 0.2) };
static const inlay_op_example examples[] = {
    PREPOST_EXAMPLE("the better one of two overlapping boxes is kept", with_labels, three_view, kept_view, 1e-5),
    PREPOST_EXAMPLE("the same within a letterbox", without, framed_view, back_view, 1e-5),
};

const prepost_operator prepost_yolo_boxes = {
    .op_type = "YoloBoxes",
    .signature = "predictions:F, place?:F -> boxes:F, classes?:S, extra?:F; F=float, S=string; layout:s='v8', "
                 "score:f=0.25, iou:f=0.45, most:i=300, agnostic:i=0, labels:s='', classes:i=0, points:i=0, "
                 "rotated:i=0, scale_x:f=1, scale_y:f=1",
    .doc =
        "Converts the predictions of a detector to boxes, best first: [boxes, 6] with left, top, right, bottom, "
        "score and class, and the names of the classes (one line of labels each). layout v8 is [1, 4 + classes, "
        "predictions], v5 [1, predictions, 5 + classes], detr [1, predictions, 4 + classes]; boxes in them are "
        "centre, width and height, scores from 0 to 1. end is [1, predictions, 6], with left, top, right, bottom, "
        "score and class. With attribute classes, further numbers of each prediction are another "
        "output: for points 2 or 3 numbers for each key point; for rotated the last one is an angle, and boxes stay "
        "centre, width and height. Among boxes of one class (agnostic: of any class) that overlap by more than "
        "iou only the best is kept, except of end and detr. Coordinates are multiplied by scale_x and scale_y. place, "
        "from Letterbox, maps boxes and key points back to the image.",
    .infer = infer,
    PREPOST_EXAMPLES(examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .supports = supports,
                .cost = cost,
                .prepare = prepare,
                .shape = shape,
                .run = run },
};
