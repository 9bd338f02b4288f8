/* gguf_vision_tiles.c - images that are cut into tiles, squares of the encoder's side. Idefics3 stretches the image to
 * whole tiles, with Lanczos' filter. InternVL chooses a size of whole tiles that suits the aspect ratio of the image,
 * and an image that is no larger than a tile has none. The whole image in one square follows the tiles. */
#include "formats/gguf_vision.h"
#include "formats/onnx_write.h"
#include "inlay/check.h"
#include <stdio.h>

enum { MOST_SIZES = 2048 }; /* of up to 256 tiles there are 1,466 */

/* $ [$.to, $.from]: the weights by which Lanczos' filter makes as many rows or columns as $.to [1] of $.from [1]. */
static const char lanczos_weights[] =
    "Cast $.from > $.from.float to=1;Squeeze $.from.float > $.in;Cast $.to > $.to.float to=1;Squeeze $.to.float > "
    "$.out;"
    "Div $.in $.out > $.scale;Max $.scale lanczos.one > $.wide;Range image.half $.in lanczos.one > $.places;"
    "Range image.half $.out lanczos.one > $.steps;Mul $.steps $.scale > $.centres;"
    "Unsqueeze $.centres image.axes1 > $.column;Sub $.places $.column > $.signed;Abs $.signed > $.far;"
    "Div $.far $.wide > $.distance;Clip $.distance lanczos.least lanczos.reach > $.safe;"
    "Mul $.safe lanczos.pi > $.angle;Div $.angle lanczos.reach > $.slow;Sin $.angle > $.sin;Sin $.slow > $.slow.sin;"
    "Mul $.angle $.slow > $.squared;Mul $.sin $.slow.sin > $.waves;Div $.waves $.squared > $.raw;"
    "ReduceSum $.raw image.axes1 > $.sum keepdims=1;Div $.raw $.sum > $;";

/* output = the image [height, width, 3] of the size `from` [2] in the size `to` [2], of whole values from 0 to 255. */
static void resize_lanczos(const struct vision *v, const char *input, const char *from, const char *to,
                           const char *output)
{
    struct builder *b = v->b;
    char columns[GGUF_NAME], rows[GGUF_NAME], names[TEXT];

    (void)snprintf(columns, sizeof columns, "%s.columns", output);
    (void)snprintf(rows, sizeof rows, "%s.rows", output);
    (void)snprintf(names, sizeof names, "%s.from %s.from", rows, columns);
    gguf_builder_node_of(b, "Split", from, names, "num_outputs", 2);
    (void)snprintf(names, sizeof names, "%s.to %s.to", rows, columns);
    gguf_builder_node_of(b, "Split", to, names, "num_outputs", 2);
    gguf_builder_program(b, lanczos_weights, columns);
    gguf_builder_program(b, lanczos_weights, rows);
    gguf_builder_node(b, "MatMul", "%s %s -> %s.exact", columns, input, columns);
    gguf_builder_program(b,
                         "Add $.columns.exact image.half > $.narrow.up;Floor $.narrow.up > $.narrow.rounded;"
                         "Clip $.narrow.rounded image.darkest image.brightest > $.narrow;Flatten $.narrow > $.flat;"
                         "MatMul $.rows $.flat > $.flat.exact;Reshape $.flat.exact lanczos.rows > $.exact;"
                         "Add $.exact image.half > $.up;Floor $.up > $.rounded;"
                         "Clip $.rounded image.darkest image.brightest > $;",
                         output);
}

void gguf_resize_to_tiles(const struct vision *v)
{
    struct builder *b = v->b;
    const int64_t longest = (v->longest + v->side - 1) / v->side * v->side;

    gguf_builder_numbers(b, "[#] > image.longest;[#] > image.stretched;[#] > image.tile;[#] > image.tile.rest;",
                         (const int64_t[]){ v->longest, longest, v->side, v->side - 1 });
    gguf_builder_program(
        b,
        "1 > lanczos.one;3 > lanczos.reach;1e-6 > lanczos.least;3.14159265 > lanczos.pi;"
        "[0,-1,3] > lanczos.rows;ReduceMax $.size > $.longer keepdims=1;Equal $.size $.longer > $.is_longer;"
        "Mul $.size $.longest > $.product;Div $.product $.longer > $.other;Mod $.other $.two > $.odd;"
        "Add $.other $.odd > $.even;Where $.is_longer $.longest $.even > $.first;"
        "Mul $.first $.stretched > $.second.product;Div $.second.product $.longest > $.second;"
        "Add $.second $.tile.rest > $.last;Div $.last $.tile > $.tiles;"
        "Mul $.tiles $.tile > $.fitted;",
        "image");
    resize_lanczos(v, "image.pixels", "image.size", "image.first", "image.once");
    resize_lanczos(v, "image.once", "image.first", "image.fitted", "image.resized");
}

/* The image, of any aspect ratio, resized to one square. */
static void write_whole(const struct vision *v)
{
    struct builder *b = v->b;

    if (v->projector->kind == PROJECTOR_TILES) {
        resize_lanczos(v, "image.resized", "image.fitted", "tile.sides", "whole");
        return;
    }
    gguf_builder_program(b,
                         "Concat image.height image.tile image.colours > whole.narrow.sizes axis=0;"
                         "Concat tile.sides image.colours > whole.sizes axis=0;",
                         "");
    gguf_resample(v, "image.pixels", "whole.narrow.sizes", "whole.narrow");
    gguf_resample(v, "whole.narrow", "whole.sizes", "whole");
}

void gguf_write_tiles(const struct vision *v)
{
    struct builder *b = v->b;
    const bool given = v->projector->kind == PROJECTOR_TILES;

    gguf_builder_numbers(b, "[#,#] > tile.sides;[-1,#,#,3] > tile.shape;",
                         (const int64_t[]){ v->side, v->side, v->side, v->side });
    gguf_builder_program(b,
                         "[1,1] > tiles.halves;Split image.tiles tiles.halves > tiles.down tiles.across axis=0;"
                         "Concat tiles.down image.tile tiles.across image.tile image.colours > tiles.apart axis=0;"
                         "Reshape $ tiles.apart > tiles.cut;"
                         "Einsum tiles.cut > tiles.near equation=yaxbc->yxabc;Reshape tiles.near tile.shape > tiles;",
                         given ? "image.resized" : "image.surrounded");
    write_whole(v);
    gguf_builder_node(b, "Unsqueeze", "whole image.axes0 -> whole.tile");
    if (given)
        gguf_builder_node(b, "Identity", "image.tiles -> image_tiles");
    else /* an image that is no larger than a tile has none */
        gguf_builder_program(b,
                             "Greater image.size image.tile > tiles.larger;Cast tiles.larger > tiles.larger.flag to=7;"
                             "ReduceMax tiles.larger.flag > tiles.are keepdims=1;ReduceProd image.tiles > tiles.all "
                             "keepdims=1;Mul tiles.all tiles.are > tiles.count;"
                             "Slice tiles image.axes0 tiles.count image.axes0 > tiles.used;",
                             "");
    gguf_builder_node_of(b, "Concat", given ? "tiles whole.tile" : "tiles.used whole.tile", "image.square", "axis", 0);
}

void gguf_write_best_size(const struct vision *v)
{
    struct builder *b = v->b;
    float sizes[2 * MOST_SIZES];
    int64_t areas[MOST_SIZES], count = 0;

    for (int64_t across = v->fewest; across <= v->most; across++)
        for (int64_t down = v->fewest; down * across <= v->most; down++, count++) {
            INLAY_CHECK(count < MOST_SIZES);
            sizes[2 * count] = (float)(down * v->side);
            sizes[2 * count + 1] = (float)(across * v->side);
            areas[count] = down * across * v->side * v->side;
        }
    onnx_tensor(b->out, "sizes", INLAY_FLOAT, (int64_t[]){ count, 2 }, 2, sizes, (size_t)count * 2 * sizeof *sizes);
    onnx_tensor(b->out, "sizes.area", INLAY_INT64, &count, 1, areas, (size_t)count * sizeof *areas);
    gguf_builder_list(b, "image.tile", &v->side, 1);
    gguf_builder_program(b,
                         "(4294967296) > sizes.weight;Div sizes $.size.float > sizes.scales;"
                         "ReduceMin sizes.scales $.axes1 > sizes.scale keepdims=1;"
                         "Mul $.size.float sizes.scale > sizes.exact;Cast sizes.exact > sizes.sides to=7;"
                         "ReduceProd sizes.sides $.axes1 > sizes.pixels keepdims=0;"
                         "ReduceProd $.size > $.pixels.count keepdims=0;Min sizes.pixels $.pixels.count > sizes.used;"
                         "Mul sizes.used sizes.weight > sizes.gain;Sub sizes.gain sizes.area > sizes.score;"
                         "ArgMax sizes.score > sizes.best axis=0;Gather sizes sizes.best > sizes.row;"
                         "Squeeze sizes.row image.axes0 > $.target;Cast $.target > $.target.exact to=7;"
                         "Div $.target.exact $.tile > $.tiles;",
                         "image");
}
