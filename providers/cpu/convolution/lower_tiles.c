/* Lowering of all tiled convolutions: their input, epilogue, and the placement of the result. */
#include "cpu/choice/machine.h"
#include "cpu/convolution/tiles.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/weights/read.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_IF_CALLED(tiles_lower);

/* True for an operand [C, 1, ..] of an output [N, C, ..]. */
static bool is_per_channel(const cpu_build *build, const cpu_group *group, uint32_t other)
{
    uint32_t rank = build->ranks[group->out], other_rank = build->ranks[other];
    int64_t channels = build->dims[group->out][1];

    return other_rank <= rank && other_rank + 1 >= rank && cpu_count(build, other) == channels &&
           build->dims[other][other_rank + 1 == rank ? 0 : 1] == channels;
}

/* Moves the post-ops that tiles can fuse into the epilogue; *out_count: their number. Operands become arguments from
 * number *io_args on. *out_in_place: the added operand is not used afterwards, so the result may overwrite it. */
static inlay_status fuse_posts(cpu_build *build, const cpu_group *group, tile_epilogue *epilogue, cpu_place *others,
                               const cpu_place **places, uint32_t *io_args, uint32_t *out_count, bool *out_in_place)
{
    uint32_t post_index = 0;
    inlay_status status = INLAY_OK;

    *out_in_place = false;
    for (; post_index < group->post_count; post_index++) {
        const cpu_post *post = &group->posts[post_index];
        tile_post *fused = &epilogue->posts[epilogue->post_count];
        cpu_place *other = &others[post_index];
        bool whole;

        if (post->kind == CPU_POST_UNARY) {
            if (epilogue->post_count == 0 && !epilogue->clamp && tiles_fuse_clamp(&post->unary, epilogue))
                continue;
            if (!cpu_function_of(&post->unary, &fused->post))
                break;
            fused->arg = INLAY_NONE;
            epilogue->post_count++;
            continue;
        }
        if (post->function == FUNCTION_PRELU && is_per_channel(build, group, post->other)) {
            INLAY_TRY(cpu_read_plain(build, post->other, other));
            places[*io_args] = other;
            *fused = (tile_post){ .post = { .fn = SGEMM_PRELU, .col = 1 }, .arg = (*io_args)++ };
            epilogue->post_count++;
            continue;
        }
        if (post->function != FUNCTION_ADD && post->function != FUNCTION_MUL)
            break;
        whole =
            build->ranks[post->other] == build->ranks[group->out] &&
            memcmp(build->dims[post->other], build->dims[group->out], build->ranks[group->out] * sizeof(int64_t)) == 0;
        if (!whole)
            break; /* an operand for each channel usually became the bias already */
        {
            bool last = cpu_is_last_use(build, post->other);
            tensor_layout layout;

            INLAY_TRY(cpu_read(build, post->other, other));
            if (!tiles_accept_layout(&other->layout)) {
                layout_channels_last(&layout, build->ranks[group->out], build->dims[group->out]);
                INLAY_TRY(cpu_read_as(build, post->other, &layout, other));
                last = false;
            }
            places[*io_args] = other;
            if (post->function == FUNCTION_ADD && epilogue->add == INLAY_NONE && epilogue->post_count == 0 &&
                !epilogue->clamp) {
                epilogue->add = (*io_args)++;
                epilogue->add_pixel = tiles_pixel_step(&other->layout);
                *out_in_place = last;
                continue;
            }
            *fused = (tile_post){ .post = { .fn = post->function == FUNCTION_ADD ? SGEMM_ADD : SGEMM_MUL,
                                            .col = 1,
                                            .row = tiles_pixel_step(&other->layout) },
                                  .arg = (*io_args)++ };
            epilogue->post_count++;
        }
    }
    *out_count = post_index;
done:
    return status;
}

inlay_status tiles_lower(cpu_build *build, const cpu_group *group, const kernel_layer *layer, int64_t points)
{
    const cpu_op *op = build->op;
    const kernel_conv_shape *window = &layer->window;
    tile_epilogue epilogue = { .bias = INLAY_NONE, .add = INLAY_NONE };
    const cpu_place *places[TILES_OPERANDS + 1 + CPU_MAX_POSTS + DEPTHWISE_PLACES];
    cpu_place input, output, bias_place, others[CPU_MAX_POSTS];
    uint32_t count = TILES_OPERANDS, posts = 0;
    bool in_place = false, in_slice = false;
    inlay_status status;
    tensor_layout layout;

    if (build->ahead[op->in[0]] != NULL)
        input = build->ahead[op->in[0]]->layer.input;
    else if (layer->gathered)
        input = layer->input;
    else
        INLAY_TRY(cpu_read(build, op->in[0], &input));
    if (!tiles_accept_layout(&input.layout) &&
        (points != 0 || !window->padded || kernel_entry_share(KERNEL_TILES, window) == 1 ||
         input.layout.kind != LAYOUT_STRIDED || input.layout.block_count > 0)) {
        layout_channels_last(&layout, (uint32_t)layer->input.layout.rank, layer->input.layout.dims);
        if (layer->gathered)
            INLAY_TRY(cpu_reorder(build, &layer->input, &layout, &input));
        else
            INLAY_TRY(cpu_read_as(build, op->in[0], &layout, &input));
    }
    if (layer->bias_value != INLAY_NONE) {
        INLAY_TRY(cpu_read_floats(build, layer->bias_value, window->out, &bias_place));
        places[count] = &bias_place;
        epilogue.bias = count++;
    }
    INLAY_TRY(fuse_posts(build, group, &epilogue, others, places, &count, &posts, &in_place));
    layout_channels_last(&layout, build->ranks[op->out[0]], build->dims[op->out[0]]);
    if (!in_place && posts == group->post_count)
        INLAY_TRY(tiles_concat_slice(build, group->out, &output, &in_slice));
    if (in_place)
        output = *places[epilogue.add];
    else if (!in_slice && posts == group->post_count)
        INLAY_TRY(cpu_result_place(build, group->out, &layout, &output));
    else if (!in_slice)
        INLAY_TRY(cpu_new_place(build, &layout, &output));
    places[TILES_X] = &input;
    places[TILES_Y] = &output;
    if (points == TILES_GEMM || points == TILES_TERMS)
        INLAY_TRY(tiles_lower_gemm(build, layer, points == TILES_TERMS ? terms_of_cpu() : NULL, &input, &epilogue,
                                   places, count, &output));
    else if (points > TILES_DEPTHWISE)
        INLAY_TRY(tiles_lower_winograd(build, op, points, &input, &layer->weights, &epilogue, places, count, &output));
    else if (points == TILES_DEPTHWISE)
        INLAY_TRY(depthwise_emit(build, layer, &epilogue, places, count));
    else
        INLAY_TRY(tiles_lower_direct(build, op, layer, &epilogue, places, count));
    if (layout_is_plain(&output.layout))
        layout_plain(&output.layout, build->ranks[group->out], build->dims[group->out]);
    status = cpu_finish(build, group, posts, &output, true);
done:
    return status;
}
