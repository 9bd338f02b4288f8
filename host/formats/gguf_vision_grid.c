/* gguf_vision_grid.c - encoders of images of any size: Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Pixtral. An image is resized
 * to sides that are multiples of the square of patches that gives one row, its aspect ratio kept. Queries and keys
 * rotate by the row of their patch in one half of a head's pairs, and by its column in the other. In Qwen2.5-VL most
 * layers see windows of 112 x 112 pixels only. Qwen3-VL adds positions, interpolated from a square of them, and its
 * rows have parts that are made of the outputs of layers, for the first layers of the language model.
 *
 * The patches are in the order of windows [windows, patches of a window, width] from the first product to the last
 * layer. Windows at the right and lower edge are filled up with patches that no other one sees. Without windows, each
 * square of patches that gives one row is a window. */
#include "formats/gguf_vision.h"
#include "formats/onnx_write.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MERGED = 2, MOST_MERGED = 16, WINDOW_PIXELS = 112, LEAST_ROWS = 8, MOST_PARTS = 16, MOST_PLACES = 1 << 10 };
#define TURN_BASE 10000.0

/* Parts of the rows after the first one. */
struct parts {
    int64_t count, width;
    char names[MOST_PARTS * 32]; /* each after a space */
};

void gguf_read_grid(struct vision *v)
{
    static const char out_of_range[] = "has a value that is not supported for its projector, or lacks the key";
    struct builder *b = v->b;
    const bool lines = v->projector->kind == PROJECTOR_LINES;

    v->merged = gguf_int_or(b->gguf, GGUF_GRID_MERGED, lines ? 1 : MERGED);
    v->pattern = gguf_int(b->gguf, GGUF_WINDOW_PATTERN);
    v->window = v->merged;
    if (lines ? v->merged < 1 || v->merged > MOST_MERGED : v->merged != MERGED)
        gguf_fail_key(b->gguf, GGUF_GRID_MERGED, out_of_range);
    if (v->pattern < 0 || (v->pattern > 0 && v->projector->kind != PROJECTOR_WINDOWS) ||
        (v->projector->kind == PROJECTOR_WINDOWS && gguf_find(b->gguf, GGUF_WINDOW_PATTERN) == NULL))
        gguf_fail_key(b->gguf, GGUF_WINDOW_PATTERN, out_of_range);
    if (v->pattern > 0)
        v->window = WINDOW_PIXELS / v->patch / MERGED * MERGED;
    if (v->window < 1)
        gguf_fail_key(b->gguf, GGUF_PATCH_SIDE, out_of_range);
    b->head_size = b->width / b->heads;
    if (b->head_size % 4 != 0 || b->head_size > MAX_HEAD_SIZE)
        gguf_fail_key(b->gguf, GGUF_VISION_HEADS, out_of_range);
}

void gguf_write_grid_target(const struct vision *v)
{
    struct builder *b = v->b;
    const double unit = (double)(v->merged * v->patch);

    gguf_builder_scalar(b, "image.step", unit);
    gguf_builder_scalar(b, "image.least", (double)LEAST_ROWS * unit * unit);
    gguf_builder_scalar(b, "image.most", (double)v->projector->most_rows * unit * unit);
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

/* NAME: the angles of the pairs of a patch of row or column 1. shift: of the pairs, as a part of one. */
static void write_turns(struct builder *b, const char *name, double shift)
{
    const int64_t quarter = b->head_size / 4;
    float angles[MAX_HEAD_SIZE / 4];

    for (int64_t i = 0; i < quarter; i++)
        angles[i] = (float)pow(TURN_BASE, -((double)i + shift) / (double)quarter);
    onnx_tensor(b->out, name, INLAY_FLOAT, &quarter, 1, angles, (size_t)quarter * sizeof *angles);
}

static void write_constants(const struct vision *v)
{
    struct builder *b = v->b;
    const int64_t columns = v->merged * v->merged * b->width;

    write_turns(b, "turns.down", 0);
    write_turns(b, "turns.across",
                v->projector->kind == PROJECTOR_LINES ? 0.5 : 0); /* the pairs of Pixtral alternate */
    gguf_builder_numbers(b,
                         "[#] > quarter;[#] > patch;[#] > patch.pixels;[#] > merged;[#] > window;[#] > window.rest;"
                         "[-1,#,#] > windows.shape;[#] > joined;[-1,#] > joined.rows;[#] > width;",
                         (const int64_t[]){ b->head_size / 4, v->patch, 3 * v->patch * v->patch, v->merged, v->window,
                                            v->window - 1, v->window * v->window, b->width, columns, columns,
                                            b->width });
}

/* output = the input + the positions of the patches, interpolated from those of a square. */
static void add_places(const struct vision *v, const char *input, const char *output)
{
    static const char name[] = "v.position_embd.weight";
    struct builder *b = v->b;
    const struct gguf_tensor *tensor = gguf_tensor(b->gguf, name);
    const int64_t count = tensor != NULL && tensor->rank == 2 ? tensor->dims[1] : 0;
    int64_t side = 0;
    const onnx_attribute attributes[] = { { "mode=linear", false, 0, 0 },
                                          { "coordinate_transformation_mode=align_corners", false, 0, 0 } };

    while (side * side < count && side < MOST_PLACES)
        side++;
    if (count < 1 || side * side != count || tensor->dims[0] != b->width)
        gguf_builder_refuse_tensor(b, name);
    if (b->gguf->status != INLAY_OK)
        return;
    b->gguf->status = gguf_write_matrix(b->gguf, tensor, 0, count, name, b->out, b->gguf->diag);
    gguf_builder_numbers(b, "[#,#,#] > places.sides;", (const int64_t[]){ side, side, b->width });
    gguf_builder_program(b, "Reshape $ places.sides > places.table;Concat patches width > places.sizes axis=0;", name);
    onnx_node(b->out, "Resize", "places.table - - places.sizes", "places", attributes, 2);
    arrange(v, "places", b->width);
    gguf_builder_node(b, "Add", "%s places.windows -> %s", input, output);
}

/* The patches, of two frames for Qwen, whose images are short films. */
static const char *write_rows(const struct vision *v)
{
    struct builder *b = v->b;
    const char *rows = "patches.first";

    gguf_write_patches(v, "v.patch_embd.weight", "pixels.windows", rows);
    if (v->projector->kind != PROJECTOR_LINES) {
        gguf_write_patches(v, "v.patch_embd.weight.1", "pixels.windows", "patches.second");
        gguf_builder_node(b, "Add", "patches.first patches.second -> patches.both");
        rows = "patches.both";
    }
    if (v->projector->kind == PROJECTOR_STACK || gguf_builder_has(b, "v.patch_embd.bias")) {
        gguf_builder_vector(b, "v.patch_embd.bias", b->width);
        gguf_builder_node(b, "Add", "%s v.patch_embd.bias -> patches.biased", rows);
        rows = "patches.biased";
    }
    if (v->projector->kind == PROJECTOR_STACK) {
        add_places(v, rows, "patches.placed");
        rows = "patches.placed";
    }
    if (gguf_builder_has(b, "v.pre_ln.weight")) {
        gguf_write_vision_norm(v, "v.pre_ln", rows, "v.pre_ln");
        rows = "v.pre_ln";
    }
    return rows;
}

/* pixels.windows [windows, patches of a window, numbers of a patch], and the masks and angles of the patches in this
 * order. */
static void embed(const struct vision *v)
{
    struct builder *b = v->b;

    gguf_builder_program(
        b,
        "(0) > first;(1) > second;[1,1] > halves;1 > is_patch;[0,2] > axes02;"
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
        "Unsqueeze rows.float axes12 > rows.apart;Mul rows.apart turns.down > rows.turns;"
        "Squeeze wide > columns.count;Range first columns.count second > columns;"
        "Cast columns > columns.float to=1;Unsqueeze columns.float axes02 > columns.apart;"
        "Mul columns.apart turns.across > columns.turns;Concat patches quarter > turns.shape axis=0;"
        "Expand rows.turns turns.shape > rows.angles;Expand columns.turns turns.shape > columns.angles;"
        "Concat rows.angles columns.angles > angles axis=2;",
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
}

/* Whether squares of patches become rows of the encoder's width before the other products, as in Mistral 3. */
static bool merges_lines(const struct vision *v)
{
    return v->projector->kind == PROJECTOR_LINES && (v->merged > 1 || gguf_builder_has(v->b, "mm.patch_merger.weight"));
}

/* Adds the part of the rows that is made of the output of a layer, if the file has its weights. */
static void add_part(const struct vision *v, int64_t layer, const char *rows, struct parts *parts)
{
    struct builder *b = v->b;
    char first[GGUF_NAME], second[GGUF_NAME], part[40], norm[GGUF_NAME], input[GGUF_NAME];
    const int64_t columns = v->merged * v->merged * b->width;
    int64_t width;

    (void)snprintf(part, sizeof part, "v.deepstack.%" PRId64, layer);
    (void)snprintf(norm, sizeof norm, "%s.fc1.weight", part);
    if (v->projector->kind != PROJECTOR_STACK || !gguf_builder_has(b, norm))
        return;
    (void)snprintf(first, sizeof first, "%s.fc1", part);
    (void)snprintf(second, sizeof second, "%s.fc2", part);
    (void)snprintf(norm, sizeof norm, "%s.norm", part);
    (void)snprintf(input, sizeof input, "%s.rows", part);
    gguf_builder_node(b, "Reshape", "%s joined.rows -> %s", rows, input);
    gguf_builder_layer_norm(b, norm, columns, input, norm);
    width = gguf_write_vision_products(v, first, second, columns, norm, part);
    if (parts->count == MOST_PARTS || (parts->count > 0 && width != parts->width))
        gguf_builder_refuse_tensor(b, second);
    parts->width = width;
    parts->count++;
    (void)snprintf(parts->names + strlen(parts->names), sizeof parts->names - strlen(parts->names), " %s", part);
}

/* The output of the projector. last: the rows of all patches. */
static void project(const struct vision *v, const char *last, const struct parts *parts)
{
    struct builder *b = v->b;
    const bool lines = v->projector->kind == PROJECTOR_LINES;
    const char *squares = "squares";
    int64_t columns = v->merged * v->merged * b->width, width;

    gguf_builder_program(b,
                         "Div window merged > merges;Concat windows merges merged merges merged rest > sides axis=0;"
                         "Reshape $ sides > squares.cut;",
                         last);
    gguf_builder_node_of(b, "Einsum", "squares.cut", "squares.near",
                         lines ? "equation=yxaibjc->yaxbcij" : "equation=yxaibjc->yaxbijc", 0);
    gguf_builder_program(b,
                         "Mul windows merges > squares.count;Concat squares.count joined > squares.shape axis=0;"
                         "Reshape squares.near squares.shape > squares.full;"
                         "Slice squares.full zeros2 image_grid > squares;",
                         "");
    if (merges_lines(v)) {
        squares = "mm.patch_merger";
        gguf_builder_linear(b, squares, columns, b->width, 0, b->width, "squares", squares);
        columns = b->width;
    }
    width = gguf_write_vision_products(v, lines ? "mm.1" : "mm.0", "mm.2", columns, squares, "rows.all");
    if (!lines) {
        char rows[sizeof parts->names + 16];

        if (parts->count > 0 && parts->width != width)
            gguf_builder_refuse_tensor(b, "mm.2.weight");
        gguf_builder_list(b, "rows.part", (int64_t[]){ -1, width }, 2);
        gguf_builder_node(b, "Reshape", "rows.all rows.part -> rows.first");
        (void)snprintf(rows, sizeof rows, "rows.first%s", parts->names);
        gguf_builder_node_of(b, "Concat", rows, "rows.parts", "axis", 1);
        gguf_write_image_rows(b, "rows.parts", width * (1 + parts->count));
        onnx_value(b->out, ONNX_OUTPUT, "image_grid", INLAY_INT64, "2");
        return;
    }
    gguf_builder_vector(b, "v.token_embd.img_break", width);
    gguf_builder_list(b, "line.width", &width, 1);
    gguf_builder_program(b,
                         "Split image_grid halves > lines columns.all axis=0;[1] > line.one;"
                         "Concat lines line.one line.width > line.ends.shape axis=0;"
                         "Concat rest line.width > line.shape axis=0;"
                         "Expand v.token_embd.img_break line.ends.shape > line.ends;"
                         "Concat rows.all line.ends > lines.apart axis=1;Reshape lines.apart line.shape > lines.rows;"
                         "Slice lines.rows image.none rest > lines.used;",
                         "");
    gguf_write_image_rows(b, "lines.used", width);
}

void gguf_write_grid(const struct vision *v)
{
    struct builder *b = v->b;
    const char *shape = "windows", *last;
    char names[2][32] = { "", "" };
    struct parts parts = { 0 };

    write_constants(v);
    embed(v);
    last = write_rows(v);
    for (int64_t layer = 0; layer < b->layers && b->gguf->status == INLAY_OK; layer++) {
        const char *sees = v->pattern > 0 && (layer + 1) % v->pattern != 0 ? "windows" : "all";
        char *next = names[layer % 2], input[48];

        (void)snprintf(input, sizeof input, "%s", last);
        if (strcmp(sees, shape) != 0) {
            (void)snprintf(input, sizeof input, "%s.%s", last, sees);
            gguf_builder_node(b, "Reshape", "%s %s.shape -> %s", last, sees, input);
            shape = sees;
        }
        (void)snprintf(next, sizeof names[0], "layer.%" PRId64, layer);
        gguf_write_vision_layer(v, layer, sees, input, next);
        add_part(v, layer, next, &parts);
        last = next;
    }
    if (merges_lines(v)) {
        gguf_write_vision_norm(v, "mm.input_norm", last, "mm.input_norm");
        last = "mm.input_norm";
    } else if (v->projector->kind != PROJECTOR_LINES && gguf_builder_has(b, "v.post_ln.weight")) {
        gguf_write_vision_norm(v, "v.post_ln", last, "v.post_ln");
        last = "v.post_ln";
    }
    project(v, last, &parts);
}
