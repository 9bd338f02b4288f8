/* The epilogue of ConvInteger by built-in kernels: int32 sums, or floats, sum * scale + shift, with functions that run
 * while a tile is in the cache, and perhaps a QuantizeLinear at the end. Scale and shift are a Mul and an Add with
 * constants, each rounded separately, so that the floats equal the reference's to the last bit. */
#include "cpu/elementwise/elementwise.h"
#include "cpu/quantized/bytes.h"
#include "cpu/quantized/quant.h"
#include "cpu/weights/read.h"
#include <math.h>

/* Is it a float tensor with one element, or with one per channel? */
static bool is_scalar_or_per_channel(const cpu_build *build, const cpu_group *group, uint32_t other)
{
    const uint32_t rank = build->ranks[group->out], own = build->ranks[other];
    const int64_t channels = build->dims[group->out][1], count = cpu_count(build, other);

    if (cpu_type(build, other) != ELEMENT_FLOAT || own > rank)
        return false;
    return count == 1 ||
           (own + 1 >= rank && count == channels && build->dims[other][own + 1 == rank ? 0 : 1] == channels);
}

/* Is it a constant whose elements can be read now? Those of a low-bit constant are made in each run. */
static bool is_readable(const cpu_build *build, uint32_t value)
{
    const uint32_t constant = build->compiled->values[value].constant;

    return constant != INLAY_NONE && build->compiled->constants[constant].kind != CONSTANT_LOW_BIT;
}

static bool is_constant(const cpu_build *build, const cpu_group *group, const cpu_post *post, element_function function)
{
    return post->kind == CPU_POST_BINARY && post->function == function && is_readable(build, post->other) &&
           is_scalar_or_per_channel(build, group, post->other);
}

static bool is_linear(const cpu_post *post)
{
    return post->kind == CPU_POST_UNARY && post->unary.function == FUNCTION_LINEAR;
}

/* The number of first posts that are scale and shift. */
static uint32_t scaling_posts(const cpu_build *build, const cpu_group *group)
{
    if (group->post_count > 0 && is_linear(&group->posts[0]))
        return 1;
    if (group->post_count == 0 || !is_constant(build, group, &group->posts[0], FUNCTION_MUL))
        return 0;
    return group->post_count > 1 && is_constant(build, group, &group->posts[1], FUNCTION_ADD) ? 2 : 1;
}

/* Is it a sum or product with floats: a tensor of the result's dims (*out_whole), one per channel, or a single one? */
static bool is_operand(const cpu_build *build, const cpu_group *group, const cpu_post *post, bool *out_whole)
{
    *out_whole =
        build->ranks[post->other] == build->ranks[group->out] &&
        memcmp(build->dims[post->other], build->dims[group->out], build->ranks[group->out] * sizeof(int64_t)) == 0;
    return (post->function == FUNCTION_ADD || post->function == FUNCTION_MUL) &&
           cpu_type(build, post->other) == ELEMENT_FLOAT &&
           (*out_whole || is_scalar_or_per_channel(build, group, post->other));
}

static bool supports_post(const cpu_build *build, const cpu_group *group, const cpu_post *post)
{
    sgemm_post ignored;
    bool whole;

    return post->kind == CPU_POST_UNARY ? cpu_function_of(&post->unary, &ignored)
                                        : is_operand(build, group, post, &whole);
}

bool bytes_takes_posts(const cpu_build *build, const cpu_group *group)
{
    if (build->state->tiles == NULL || build->state->sgemm == NULL)
        return false;
    for (uint32_t post = scaling_posts(build, group); post < group->post_count; post++)
        if (!supports_post(build, group, &group->posts[post]))
            return false;
    return true;
}

/* Element i of a constant, or its only one. */
static inlay_status number_at(cpu_build *build, uint32_t value, int64_t i, float *out)
{
    const void *data;
    inlay_status status = cpu_read_original(build, value, &data);

    if (status == INLAY_OK)
        memcpy(out, (const char *)data + (cpu_count(build, value) > 1 ? i : 0) * (int64_t)sizeof *out, sizeof *out);
    return status;
}

/* Reads scale and shift of all channels from the first `count` posts. */
static inlay_status read_scales(cpu_build *build, bytes_case *layer, uint32_t count)
{
    const cpu_post *posts = layer->group->posts;
    inlay_status status = INLAY_OK;

    layer->scale = cpu_scratch_take(build->scratch, 2 * (size_t)layer->window.out + 1, sizeof *layer->scale);
    if (layer->scale == NULL)
        return q_no_memory(build);
    layer->shift = layer->scale + layer->window.out;
    for (int64_t i = 0; i < layer->window.out && status == INLAY_OK; i++) {
        const bool linear = count > 0 && is_linear(&posts[0]);

        layer->scale[i] = linear ? posts[0].unary.alpha : 1;
        layer->shift[i] = linear ? posts[0].unary.beta : 0;
        if (count > 0 && !linear)
            status = number_at(build, posts[0].other, i, &layer->scale[i]);
        if (count > 1 && status == INLAY_OK)
            status = number_at(build, posts[1].other, i, &layer->shift[i]);
    }
    return status;
}

static inlay_status read_operand(cpu_build *build, bytes_case *layer, const cpu_post *post, tile_post *tile)
{
    const bool adds = post->function == FUNCTION_ADD;
    bytes_floats *floats = &layer->floats;
    cpu_place *place = &layer->others[floats->operand_count];
    inlay_status status = INLAY_OK;
    bool whole;
    tensor_layout layout;

    INLAY_CHECK(floats->operand_count < CPU_MAX_POSTS);
    (void)is_operand(build, layer->group, post, &whole);
    if (!whole && cpu_count(build, post->other) == 1 && is_readable(build, post->other)) {
        tile->post = (sgemm_post){ .fn = SGEMM_LINEAR, .alpha = 1, .beta = 0 };
        return number_at(build, post->other, 0, adds ? &tile->post.beta : &tile->post.alpha);
    }
    tile->post = (sgemm_post){ .fn = adds ? SGEMM_ADD : SGEMM_MUL, .col = whole || cpu_count(build, post->other) > 1 };
    tile->arg = BYTES_OTHERS + floats->operand_count++;
    if (!whole)
        return cpu_read_plain(build, post->other, place);
    INLAY_TRY(cpu_read(build, post->other, place));
    if (!tiles_accept_layout(&place->layout)) {
        layout_channels_last(&layout, build->ranks[layer->group->out], build->dims[layer->group->out]);
        INLAY_TRY(cpu_read_as(build, post->other, &layout, place));
    }
    tile->post.row = tiles_pixel_step(&place->layout);
done:
    return status;
}

inlay_status bytes_read_posts(cpu_build *build, bytes_case *layer)
{
    const cpu_group *group = layer->group;
    bytes_floats *floats = &layer->floats;
    inlay_status status = INLAY_OK;
    uint32_t post = 0;

    *floats = (bytes_floats){ .epilogue = { .bias = INLAY_NONE, .add = INLAY_NONE },
                              .set = build->state->tiles,
                              .kernel = build->state->sgemm };
    if (layer->kind != BYTE_FLOATS)
        return INLAY_OK;
    post = scaling_posts(build, group);
    INLAY_TRY(read_scales(build, layer, post));
    for (; floats->set != NULL && floats->kernel != NULL && post < group->post_count &&
           supports_post(build, group, &group->posts[post]);
         post++) {
        tile_post *tile = &floats->epilogue.posts[floats->epilogue.post_count++];

        tile->arg = INLAY_NONE;
        if (group->posts[post].kind == CPU_POST_UNARY)
            (void)cpu_function_of(&group->posts[post].unary, &tile->post);
        else
            INLAY_TRY(read_operand(build, layer, &group->posts[post], tile));
    }
    if (group->ends > 0) {
        const cpu_op *last = &build->compiled->ops[group->ends - 1];

        floats->quantizes = true;
        floats->y_signed = cpu_type(build, group->out) == ELEMENT_INT8;
        floats->y_scale = last->quantized.scale;
        floats->y_zero = (float)last->quantized.zero;
    }
    layer->posts = post;
done:
    return status;
}

inlay_status bytes_emit(cpu_build *build, const bytes_case *layer, const cpu_place *weights, const cpu_place *output,
                        cpu_native *native)
{
    const cpu_place *places[BYTES_OTHERS + CPU_MAX_POSTS + 1] = { &layer->input, weights, output };
    const uint32_t count = bytes_first_arg(layer) + (layer->computes_first ? 1 : 0);
    inlay_status status;

    INLAY_CHECK(layer->floats.operand_count <= CPU_MAX_POSTS);
    for (uint32_t i = 0; i < layer->floats.operand_count; i++)
        places[BYTES_OTHERS + i] = &layer->others[i];
    if (layer->computes_first)
        places[bytes_first_arg(layer)] = &layer->first;
    status = cpu_emit_native(build, native, places, count);
    return status != INLAY_OK
               ? status
               : cpu_finish(build, layer->group, layer->kind == BYTE_FLOATS ? layer->posts : layer->group->post_count,
                            output, true);
}

inlay_status bytes_result(cpu_build *build, const bytes_case *layer, cpu_place *out)
{
    const uint32_t y = build->op->out[0];
    const bool all = layer->kind != BYTE_FLOATS || layer->posts == layer->group->post_count;
    tensor_layout layout;

    layout_channels_last(&layout, build->ranks[y], build->dims[y]);
    layout.type = all ? cpu_type(build, layer->group->out) : ELEMENT_FLOAT;
    return all ? cpu_result_place(build, layer->group->out, &layout, out) : cpu_new_place(build, &layout, out);
}

void bytes_finish(const bytes_floats *floats, void *const *args, float *c, int64_t pixel, int64_t rows, int64_t column,
                  int64_t columns, void *output, int64_t y_pixel)
{
    if (floats->epilogue.post_count > 0)
        tiles_apply_epilogue(floats->set, floats->kernel, &floats->epilogue, args, c, columns, pixel, rows, column,
                             columns);
    if (floats->quantizes && y_pixel == columns)
        q_quantize(output, c, floats->y_signed, rows * columns, floats->y_scale, floats->y_zero);
    else if (floats->quantizes)
        for (int64_t r = 0; r < rows; r++)
            q_quantize((uint8_t *)output + r * y_pixel, c + r * columns, floats->y_signed, columns, floats->y_scale,
                       floats->y_zero);
    else
        for (int64_t r = 0; r < rows; r++)
            memcpy((float *)output + r * y_pixel, c + r * columns, (size_t)columns * sizeof *c);
}
