/* draw.c - onnxruntime-extensions' DrawBoundingBoxes. */
#include "prepost/prepost.h"
#include <math.h>
#include <stdlib.h>

enum { COLOURS = 10, BOX = 6, SCORE = 4, CLASS = 5 };
static const uint8_t bgr[COLOURS][3] = {
    { 0, 0, 255 }, { 0, 255, 0 }, { 255, 0, 0 }, { 255, 255, 0 }, { 255, 0, 255 },
    { 0, 0, 128 }, { 0, 128, 0 }, { 128, 0, 0 }, { 0, 0, 0 },     { 128, 128, 128 }
};
static const char *const modes[] = { "XYXY", "XYWH", "CENTER_XYWH" };

/* The score, class, input index and colour of a box. */
struct ranked {
    float score, class;
    int64_t at;
    int colour;
};

static int by_score(const void *pa, const void *pb)
{
    const struct ranked *a = pa, *b = pb;

    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

static int by_colour(const void *pa, const void *pb)
{
    const struct ranked *a = pa, *b = pb;

    return a->colour != b->colour ? (a->colour < b->colour ? -1 : 1) : by_score(pa, pb);
}

/* Heap sort: qsort() may allocate memory, which a run must not do. compare() has no equal elements. */
static void sort(struct ranked *list, int64_t count, int (*compare)(const void *a, const void *b))
{
    int64_t begin = count / 2, end = count;

    while (end > 1) {
        struct ranked moved;
        int64_t hole, child;

        if (begin > 0) { /* builds the heap, whose first element comes last in the order */
            moved = list[--begin];
        } else { /* takes the first element out of the heap */
            moved = list[--end];
            list[end] = list[0];
        }
        for (hole = begin; (child = 2 * hole + 1) < end; hole = child) {
            if (child + 1 < end && compare(&list[child], &list[child + 1]) < 0)
                child++;
            if (compare(&moved, &list[child]) >= 0)
                break;
            list[hole] = list[child];
        }
        list[hole] = moved;
    }
}

static int64_t clip(double value, int64_t most)
{
    return !(value > 0) ? 0 : value > (double)most ? most : (int64_t)value;
}

static void fill(uint8_t *picture, int64_t width, const int64_t at[4], const uint8_t colour[3])
{
    for (int64_t y = at[1]; y < at[3]; y++)
        for (int64_t x = at[0]; x < at[2]; x++)
            memcpy(picture + (y * width + x) * 3, colour, 3);
}

/* Draws the outline of a box, clipped to the image; half of its thickness is outside the box. */
static void draw(uint8_t *picture, int64_t height, int64_t width, const float *box, int mode, int64_t thick,
                 const uint8_t colour[3])
{
    const double w = (double)box[2], h = (double)box[3];
    const double left = mode == 2 ? (double)box[0] - w / 2 : (double)box[0],
                 top = mode == 2 ? (double)box[1] - h / 2 : (double)box[1];
    const double right = mode == 0 ? w : left + w, bottom = mode == 0 ? h : top + h;
    const double before = (double)(thick / 2), behind = (double)(thick - thick / 2);
    const int64_t x0 = clip(round(left) - before, width), y0 = clip(round(top) - before, height);
    const int64_t x1 = clip(round(right) + behind, width), y1 = clip(round(bottom) + behind, height);
    const int64_t x = x1 - x0 < thick ? x1 - x0 : thick, y = y1 - y0 < thick ? y1 - y0 : thick;
    const int64_t sides[4][4] = {
        { x0, y0, x1, y0 + y }, { x0, y1 - y, x1, y1 }, { x0, y0, x0 + x, y1 }, { x1 - x, y0, x1, y1 }
    };

    for (int i = 0; x > 0 && y > 0 && i < 4; i++)
        fill(picture, width, sides[i], colour);
}

/* Assigns colours to classes, or to boxes, in the order of scores; boxes without a colour are dropped. */
static int64_t give_colours(struct ranked *list, int64_t count, bool by_class)
{
    float classes[COLOURS];
    int used = 0;
    int64_t kept = 0;

    for (int64_t i = 0; i < count; i++) {
        int class = 0;

        while (by_class && class < used && classes[class] != list[i].class)
            class ++;
        if (!by_class)
            class = used;
        if (class == COLOURS)
            continue;
        if (class == used)
            classes[used++] = list[i].class;
        list[kept] = list[i];
        list[kept++].colour = class;
    }
    return kept;
}

typedef struct draw_state {
    bool by_class;
    int64_t thick;
    int mode;
} draw_state;

static inlay_status prepare_draw(const kit_node *node, void **out_state, inlay_diag *diag)
{
    draw_state *state = malloc(sizeof *state);

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "DrawBoundingBoxes: no memory");
    *state =
        (draw_state){ kit_attr_int(node->info, "colour_by_classes", 1) > 0, kit_attr_int(node->info, "thickness", 4),
                      prepost_word(kit_attr_string(node->info, "mode", "XYXY"), modes, KIT_COUNT(modes)) };
    *out_state = state;
    return INLAY_OK;
}

static inlay_status shape_draw(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *boxes = &plan->in[1];

    (void)state, (void)diag;
    if (boxes->rank == 2 && boxes->dims[0] > 0)
        plan->workspace_bytes = (uint64_t)boxes->dims[0] * sizeof(struct ranked);
    return INLAY_OK;
}

static inlay_status run_draw(const kit_call *call)
{
    const draw_state *state = call->state;
    const kit_tensor *input = &call->in[0], *boxes = &call->in[1];
    const int64_t count = boxes->rank == 2 ? boxes->dims[0] : 0;
    struct ranked *list = call->workspace;
    int64_t kept;
    inlay_status status;

    if (input->rank != 3 || input->dims[2] != 3 || boxes->rank != 2 || boxes->dims[1] != BOX)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "DrawBoundingBoxes: the image must be [height, width, 3] and the boxes [n, 6]");
    INLAY_TRY(kit_alloc_output(call, 0, 3, input->dims));
    if (input->count > 0)
        memcpy(call->out[0].data, input->data, (size_t)input->count);
    for (int64_t i = 0; i < count; i++) {
        const float *box = (const float *)boxes->data + i * BOX;

        list[i] = (struct ranked){ isnan(box[SCORE]) ? -INFINITY : box[SCORE], box[CLASS], i, 0 };
    }
    sort(list, count, by_score);
    kept = give_colours(list, count, state->by_class);
    sort(list, kept, by_colour);
    for (int64_t i = kept; i-- > 0;) /* draw the best last */
        draw(call->out[0].data, input->dims[0], input->dims[1], (const float *)boxes->data + list[i].at * BOX,
             state->mode, state->thick, bgr[list[i].colour]);
done:
    return status;
}

static bool supports_draw(const kit_node *node, kit_refusal *why)
{
    const int64_t thick = kit_attr_int(node->info, "thickness", 4);

    if (thick < 1 || thick > 65500)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use a thickness from 1 to 65500", "thickness is %lld",
                          (long long)thick);
    return prepost_one_of(node, "mode", "XYXY", modes, KIT_COUNT(modes), why);
}

static inlay_status infer_draw(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *input = in->inputs[0];
    const inlay_status status = prepost_want_rank(in, 0, 3, 3, "[height, width, 3]", diag);

    (void)ctx;
    return status == INLAY_OK && prepost_knows_rank(input) ? prepost_set(in, 0, 3, input->dims) : status;
}

static void cost_draw(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    (void)node;
    prepost_cost_elements(cost, shapes, 2000, 0.2, 1e6);
}

static const int64_t picture_dims[] = { 4, 5, 3 }, boxes_dims[] = { 2, 6 };
static const uint8_t black[60] = { 0 };
/* A red outline around the right four columns of the upper rows, over a green one to the left of it. */
static const float boxes[] = { 0, 1, 2, 3, 0.5f, 7, 1, 0, 4, 2, 0.9f, 3 };
#define R 0, 0, 255
#define G 0, 255, 0
#define B 0, 0, 0
static const uint8_t framed[60] = { B, R, R, R, R, G, R, G, B, R, G, R, R, R, R, G, G, G, B, B };
#undef R
#undef G
#undef B
static const inlay_tensor_view draw_in[] = { PREPOST_VIEW(black, picture_dims, INLAY_UINT8),
                                             PREPOST_VIEW(boxes, boxes_dims, INLAY_FLOAT) };
static const inlay_tensor_view draw_out[] = { PREPOST_VIEW(framed, picture_dims, INLAY_UINT8) };
static const inlay_attr_info thin[] = { PREPOST_ATTR_INT("thickness", 1) };
static const inlay_op_example draw_examples[] = { PREPOST_EXAMPLE("two frames", thin, draw_in, draw_out, 0) };

const prepost_operator prepost_draw_boxes = {
    .op_type = "DrawBoundingBoxes",
    .signature = "picture:B, boxes:F -> drawn:B; B=uint8, F=float; thickness:i=4, num_classes:i=10, mode:s='XYXY', "
                 "colour_by_classes:i=1",
    .doc = "Draws outlines of boxes [n, 6] (x, y, x or width, y or height, score, class) on a BGR image, in ten "
           "colours by class or by score; the best box is drawn last. mode: XYXY, XYWH or CENTER_XYWH.",
    .extensions = true,
    .infer = infer_draw,
    PREPOST_EXAMPLES(draw_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .supports = supports_draw,
                .cost = cost_draw,
                .prepare = prepare_draw,
                .shape = shape_draw,
                .run = run_draw },
};
