/* gguf_vision_grid.c - the encoders of Qwen2-VL and Qwen2.5-VL. An image is resized to sides that are multiples of two
 * patches, its aspect ratio kept. Queries and keys rotate by the row of their patch in one half of a head's pairs, and
 * by its column in the other. In Qwen2.5-VL most layers see windows of 112 x 112 pixels only.
 *
 * The patches are in the order of windows [windows, patches of a window, width] from the first product to the last
 * layer. Windows at the right and lower edge are filled up with patches that no other one sees. Without windows, each
 * group of the four patches that a row is made of is one. */
#include "formats/gguf_vision.h"
#include "formats/onnx_write.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MERGED = 2, WINDOW_PIXELS = 112, LEAST_ROWS = 8, MOST_ROWS = 4096 };
#define TURN_BASE 10000.0

void gguf_read_grid(struct vision *v)
{
    static const char out_of_range[] = "has a value that is not supported for its projector, or lacks the key";
    struct builder *b = v->b;

    v->merged = gguf_int(b->gguf, GGUF_GRID_MERGED);
    v->pattern = gguf_int(b->gguf, GGUF_WINDOW_PATTERN);
    v->window = MERGED;
    if (v->merged != MERGED)
        gguf_fail_key(b->gguf, GGUF_GRID_MERGED, out_of_range);
    if (v->pattern < 0 || (v->pattern > 0 && v->projector->kind == PROJECTOR_GRID) ||
        (v->projector->kind == PROJECTOR_WINDOWS && gguf_find(b->gguf, GGUF_WINDOW_PATTERN) == NULL))
        gguf_fail_key(b->gguf, GGUF_WINDOW_PATTERN, out_of_range);
    if (v->pattern > 0)
        v->window = WINDOW_PIXELS / v->patch / MERGED * MERGED;
    if (v->window < MERGED)
        gguf_fail_key(b->gguf, GGUF_PATCH_SIDE, out_of_range);
    b->head_size = b->width / b->heads;
    if (b->head_size % 4 != 0 || b->head_size > MAX_HEAD_SIZE)
        gguf_fail_key(b->gguf, GGUF_VISION_HEADS, out_of_range);
}

void gguf_write_grid_target(const struct vision *v)
{
    struct builder *b = v->b;
    const double unit = (double)(MERGED * v->patch);

    gguf_builder_scalar(b, "image.step", unit);
    gguf_builder_scalar(b, "image.least", (double)LEAST_ROWS * unit * unit);
    gguf_builder_scalar(b, "image.most", (double)MOST_ROWS * unit * unit);
    gguf_builder_program(
        b,
        "Div $.size.float $.step > $.steps;Add $.steps $.half > $.up;Floor $.up > $.nearest;"
        "Mul $.nearest $.step > $.rounded;Max $.rounded $.step > $.near;"
        "ReduceProd $.near > $.near.area keepdims=0;ReduceProd $.size.float > $.area keepdims=0;"
        "Div $.area $.most > $.excess;Sqrt $.excess > $.shrink;Div $.size.float $.shrink > $.small;"
        "Div $.small $.step > $.small.steps;Floor $.small.steps > $.small.whole;"
        "Mul $.small.whole $.step > $.lower;Max $.lower $.step > $.smaller;"
        "Div $.least $.area > $.lack;Sqrt $.lack > $.grow;Mul $.size.float $.grow > $.large;"
        "Div $.large $.step > $.large.steps;Ceil $.large.steps > $.large.whole;"
        "Mul $.large.whole $.step > $.larger;"
        "Greater $.near.area $.most > $.is_large;Less $.near.area $.least > $.is_small;"
        "Where $.is_small $.larger $.near > $.not_small;Where $.is_large $.smaller $.not_small > $.target;",
        "image");
}

/* NAME.windows [windows, patches of a window, columns]: of NAME [rows, columns of patches, columns]. */
static void arrange(const struct vision *v, const char *name, int64_t columns)
{
    char list[TEXT];

    (void)snprintf(list, sizeof list, "%s.joined", name);
    gguf_builder_list(v->b, list, (int64_t[]){ -1, v->window * v->window, columns }, 3);
    gguf_builder_program(v->b,
                         "Pad $ missing > $.full;Reshape $.full apart > $.cut;"
                         "Einsum $.cut > $.near equation=yaxbc->yxabc;Reshape $.near $.joined > $.windows;",
                         name);
}

static void write_constants(const struct vision *v)
{
    struct builder *b = v->b;
    const int64_t quarter = b->head_size / 4, joined = 3 * v->patch * v->patch;
    float angles[MAX_HEAD_SIZE / 4];

    for (int64_t i = 0; i < quarter; i++)
        angles[i] = (float)pow(TURN_BASE, -(double)i / (double)quarter);
    onnx_tensor(b->out, "turns", INLAY_FLOAT, &quarter, 1, angles, (size_t)quarter * sizeof *angles);
    gguf_builder_list(b, "patch", &v->patch, 1);
    gguf_builder_list(b, "patch.pixels", &joined, 1);
    gguf_builder_list(b, "window", &v->window, 1);
    gguf_builder_list(b, "window.rest", (int64_t[]){ v->window - 1 }, 1);
    gguf_builder_list(b, "quarter", &quarter, 1);
    gguf_builder_list(b, "windows.shape", (int64_t[]){ -1, v->window * v->window, b->width }, 3);
}

/* embedded [windows, patches of a window, width], and the masks and angles of the patches in this order. */
static void embed(const struct vision *v)
{
    struct builder *b = v->b;

    gguf_builder_program(
        b,
        "(0) > first;(1) > second;[1,1] > halves;1 > is_patch;[2] > merged;[0,2] > axes02;"
        "[1,2] > axes12;[0,0] > zeros2;[0,0,0] > zeros3;[1,-1] > flat;[-1] > rest;[1,-1,0] > all.shape;"
        "Div $.target.whole patch > patches;Div patches merged > image_grid;"
        "Add patches window.rest > up;Div up window > windows;Split patches halves > tall wide axis=0;"
        "Split windows halves > windows.tall windows.wide axis=0;"
        "Mul windows window > filled;Sub filled patches > lack;"
        "Concat zeros3 lack $.none > missing axis=0;"
        "Concat windows.tall window windows.wide window rest > apart axis=0;"
        "Concat tall patch wide patch $.colours > $.apart axis=0;"
        "Reshape $.normal $.apart > $.cut;"
        "Einsum $.cut > $.tiles equation=yaxbc->yxcab;"
        "Concat patches patch.pixels > pixels.shape axis=0;Reshape $.tiles pixels.shape > pixels;"
        "Concat patches $.axes1 > mask.shape axis=0;Expand is_patch mask.shape > mask;"
        "Squeeze tall > rows.count;Range first rows.count second > rows;Cast rows > rows.float to=1;"
        "Unsqueeze rows.float axes12 > rows.apart;Mul rows.apart turns > rows.turns;"
        "Squeeze wide > columns.count;Range first columns.count second > columns;"
        "Cast columns > columns.float to=1;Unsqueeze columns.float axes02 > columns.apart;"
        "Mul columns.apart turns > columns.turns;Concat patches quarter > turns.shape axis=0;"
        "Expand rows.turns turns.shape > turns.down;Expand columns.turns turns.shape > turns.across;"
        "Concat turns.down turns.across > angles axis=2;",
        "image");
    arrange(v, "pixels", 3 * v->patch * v->patch);
    arrange(v, "mask", 1);
    arrange(v, "angles", b->head_size / 2);
    gguf_builder_program(b,
                         "Flatten angles.windows > angles.rows axis=2;Cos angles.rows > rotary.cos;"
                         "Sin angles.rows > rotary.sin;Cast mask.windows > mask.whole to=6;"
                         "Squeeze mask.whole image.axes2 > windows.mask;Reshape mask.whole flat > all.mask;"
                         "Size mask.whole > count;Range first count second > order;Reshape order flat > all.row;"
                         "Shape windows.mask > windows.sides;Reshape order windows.sides > windows.row;",
                         "");
    gguf_write_patches(v, "v.patch_embd.weight", "pixels.windows", "patches.first");
    gguf_write_patches(v, "v.patch_embd.weight.1", "pixels.windows", "patches.second");
    gguf_builder_node(b, "Add", "patches.first patches.second -> embedded");
}

static void normalize(const struct vision *v, const char *norm, const char *input, const char *output)
{
    char weight[GGUF_NAME];

    (void)snprintf(weight, sizeof weight, "%s.weight", norm);
    if (v->projector->kind == PROJECTOR_WINDOWS)
        gguf_builder_rms_norm(v->b, weight, v->b->width, input, output);
    else
        gguf_builder_layer_norm(v->b, norm, input, output);
}

/* sees: "windows", or "all" patches; the input has their shape. */
static void write_layer(const struct vision *v, int64_t layer, const char *sees, const char *input, const char *output)
{
    static const char *const parts[] = { "attn_q", "attn_k", "attn_v" };
    struct builder *b = v->b;
    char prefix[32], name[GGUF_NAME], norm[GGUF_NAME], still[GGUF_NAME + 8], inputs[TEXT], rows[16];

    (void)snprintf(prefix, sizeof prefix, "v.blk.%" PRId64 ".", layer);
    (void)snprintf(norm, sizeof norm, "%sln1", prefix);
    (void)snprintf(rows, sizeof rows, "%s.row", sees);
    normalize(v, norm, input, norm);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(name, sizeof name, "%s%s", prefix, parts[i]);
        (void)snprintf(still, sizeof still, "%s%s", name, i < 2 ? ".still" : "");
        gguf_builder_linear(b, name, b->width, b->width, 0, b->width, norm, still);
        if (i < 2)
            gguf_builder_turn(b, rows, "rotary", b->heads, still, name);
    }
    (void)snprintf(rows, sizeof rows, "%s.mask", sees);
    gguf_builder_attention(b, prefix, rows, input, "attn_out");
    (void)snprintf(inputs, sizeof inputs, "%sattn_out.sum", prefix);
    (void)snprintf(name, sizeof name, "%sln2", prefix);
    normalize(v, name, inputs, name);
    (void)snprintf(norm, sizeof norm, "%sffn", prefix);
    gguf_write_vision_network(v, prefix, name, norm);
    gguf_builder_node(b, "Add", "%s %s -> %s", inputs, norm, output);
}

void gguf_write_grid(const struct vision *v)
{
    struct builder *b = v->b;
    const int64_t joined = MERGED * MERGED * b->width;
    const char *shape = "windows";
    char names[2][32] = { "embedded", "" };
    const char *last = names[0];

    write_constants(v);
    embed(v);
    for (int64_t layer = 0; layer < b->layers && b->gguf->status == INLAY_OK; layer++) {
        const char *sees = v->pattern > 0 && (layer + 1) % v->pattern != 0 ? "windows" : "all";
        char *next = names[(layer + 1) % 2], input[48];

        (void)snprintf(input, sizeof input, "%s", last);
        if (strcmp(sees, shape) != 0) {
            (void)snprintf(input, sizeof input, "%s.%s", last, sees);
            gguf_builder_node(b, "Reshape", "%s %s.shape -> %s", last, sees, input);
            shape = sees;
        }
        (void)snprintf(next, sizeof names[0], "layer.%" PRId64, layer);
        write_layer(v, layer, sees, input, next);
        last = next;
    }
    if (gguf_builder_has(b, "v.post_ln.weight")) {
        normalize(v, "v.post_ln", last, "v.post_ln");
        last = "v.post_ln";
    }
    gguf_builder_list(b, "joined", &joined, 1);
    gguf_builder_program(b,
                         "Div window merged > merges;Concat windows merges merged merges merged rest > sides axis=0;"
                         "Reshape $ sides > squares.cut;Einsum squares.cut > squares.near equation=yxaibjc->yaxbijc;"
                         "Mul windows merges > squares.count;Concat squares.count joined > squares.shape axis=0;"
                         "Reshape squares.near squares.shape > squares.full;"
                         "Slice squares.full zeros2 image_grid > squares;",
                         last);
    gguf_write_vision_products(b, joined, "squares");
    onnx_value(b->out, ONNX_OUTPUT, "image_grid", INLAY_INT64, "2");
}
