/* jp2.c - JPEG 2000 with openjpeg. */
#include "prepost/image/codec.h"
#include <math.h>
#include <openjpeg.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const uint8_t *bytes;
    uint64_t count, at;
    char why[200];
};

static void on_error(const char *text, void *user)
{
    struct reader *reader = user;

    strncpy(reader->why, text, sizeof reader->why - 1);
    reader->why[strcspn(reader->why, "\n")] = '\0';
}

static void on_message(const char *text, void *user)
{
    (void)text;
    (void)user;
}

static OPJ_SIZE_T on_read(void *to, OPJ_SIZE_T count, void *user)
{
    struct reader *reader = user;
    const uint64_t left = reader->count - reader->at, taken = count < left ? count : left;

    if (taken == 0)
        return (OPJ_SIZE_T)-1;
    memcpy(to, reader->bytes + reader->at, taken);
    reader->at += taken;
    return taken;
}

static OPJ_OFF_T on_skip(OPJ_OFF_T count, void *user)
{
    struct reader *reader = user;
    const uint64_t left = reader->count - reader->at;

    if (count < 0 || left == 0)
        return -1;
    reader->at += (uint64_t)count < left ? (uint64_t)count : left;
    return count;
}

static OPJ_BOOL on_seek(OPJ_OFF_T to, void *user)
{
    struct reader *reader = user;

    if (to < 0 || (uint64_t)to > reader->count)
        return OPJ_FALSE;
    reader->at = (uint64_t)to;
    return OPJ_TRUE;
}

/* The sample of a component at a pixel, as 8 bits; components may be subsampled. */
static int sample(const opj_image_comp_t *component, uint32_t x, uint32_t y)
{
    const uint32_t cx = x / component->dx < component->w ? x / component->dx : component->w - 1,
                   cy = y / component->dy < component->h ? y / component->dy : component->h - 1;
    int64_t value = component->data[(size_t)cy * component->w + cx];

    if (component->sgnd)
        value += (int64_t)1 << (component->prec - 1);
    value = component->prec > 8   ? value >> (component->prec - 8)
            : component->prec < 8 ? value * 255 / (((int64_t)1 << component->prec) - 1)
                                  : value;
    return value < 0 ? 0 : value > 255 ? 255 : (int)value;
}

static uint8_t byte_of(double value)
{
    return value < 0 ? 0 : value > 255 ? 255 : (uint8_t)lround(value);
}

static inlay_status put_rows(const opj_image_t *image, picture_sink *sink)
{
    const uint32_t colours = image->numcomps >= 3 ? 3 : 1;
    const bool luma = image->color_space == OPJ_CLRSPC_SYCC && colours == 3;
    uint8_t *row = malloc((size_t)sink->width * 3);

    if (row == NULL)
        return inlay_fail(sink->diag, INLAY_OUT_OF_MEMORY, "JPEG 2000: no memory for rows");
    for (int64_t y = 0; y < sink->height; y++) {
        for (int64_t x = 0; x < sink->width; x++) {
            int samples[3];

            for (uint32_t k = 0; k < 3; k++)
                samples[k] = sample(&image->comps[colours == 3 ? k : 0], (uint32_t)x, (uint32_t)y);
            if (luma) {
                const double luma_value = samples[0], cb = samples[1] - 128, cr = samples[2] - 128;

                row[3 * x] = byte_of(luma_value + 1.402 * cr);
                row[3 * x + 1] = byte_of(luma_value - 0.344136 * cb - 0.714136 * cr);
                row[3 * x + 2] = byte_of(luma_value + 1.772 * cb);
                continue;
            }
            for (int k = 0; k < 3; k++)
                row[3 * x + k] = (uint8_t)samples[k];
        }
        picture_row(sink, y, row);
    }
    free(row);
    return INLAY_OK;
}

static bool is_valid(const opj_image_t *image, bool read)
{
    if (image->numcomps == 0 || image->x1 <= image->x0 || image->y1 <= image->y0)
        return false;
    for (uint32_t i = 0; i < image->numcomps && i < 3; i++) {
        const opj_image_comp_t *component = &image->comps[i];

        if (component->prec < 1 || component->prec > 31 || component->dx < 1 || component->dy < 1 || component->w < 1 ||
            component->h < 1 || (read && component->data == NULL))
            return false;
    }
    return true;
}

static inlay_status read_all(opj_codec_t *decoder, opj_stream_t *stream, opj_image_t **image,
                             const struct reader *reader, picture_sink *sink)
{
    opj_dparameters_t parameters;
    inlay_status status;

    opj_set_default_decoder_parameters(&parameters);
    if (!opj_setup_decoder(decoder, &parameters) || !opj_read_header(stream, decoder, image) ||
        !is_valid(*image, false))
        return inlay_fail(sink->diag, INLAY_INVALID_ARGUMENT, "JPEG 2000: %s",
                          reader->why[0] != '\0' ? reader->why : "the header is damaged");
    status = picture_begin(sink, "JPEG 2000", (uint64_t)(*image)->y1 - (*image)->y0,
                           (uint64_t)(*image)->x1 - (*image)->x0, 0);
    if (status != INLAY_OK)
        return status;
    if (!opj_decode(decoder, stream, *image) || !opj_end_decompress(decoder, stream) || !is_valid(*image, true))
        return inlay_fail(sink->diag, INLAY_INVALID_ARGUMENT, "JPEG 2000: %s",
                          reader->why[0] != '\0' ? reader->why : "the image is damaged");
    return put_rows(*image, sink);
}

static inlay_status decode(const uint8_t *bytes, size_t count, picture_sink *sink)
{
    struct reader reader = { .bytes = bytes, .count = count };
    opj_codec_t *decoder = opj_create_decompress(codec_is_jp2_box(bytes, count) ? OPJ_CODEC_JP2 : OPJ_CODEC_J2K);
    opj_stream_t *stream = opj_stream_default_create(OPJ_TRUE);
    opj_image_t *image = NULL;
    inlay_status status;

    if (decoder == NULL || stream == NULL) {
        status = inlay_fail(sink->diag, INLAY_OUT_OF_MEMORY, "JPEG 2000: no memory");
        goto done;
    }
    (void)opj_set_error_handler(decoder, on_error, &reader);
    (void)opj_set_warning_handler(decoder, on_message, NULL);
    (void)opj_set_info_handler(decoder, on_message, NULL);
    opj_stream_set_user_data(stream, &reader, NULL);
    opj_stream_set_user_data_length(stream, count);
    opj_stream_set_read_function(stream, on_read);
    opj_stream_set_skip_function(stream, on_skip);
    opj_stream_set_seek_function(stream, on_seek);
    status = read_all(decoder, stream, &image, &reader, sink);
done:
    if (stream != NULL)
        opj_stream_destroy(stream);
    if (decoder != NULL)
        opj_destroy_codec(decoder);
    opj_image_destroy(image);
    return status;
}

const struct codec codec_jp2 = { .name = "JPEG 2000", .library = "openjpeg", .is = codec_is_jp2, .decode = decode };
