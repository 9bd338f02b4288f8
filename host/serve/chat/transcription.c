#include "serve/chat/transcription.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "codecs/multipart.h"
#include "serve/chat/models.h"
#include "serve/exchange/watch.h"
#include "serve/model/speech.h"
#include "serve/repository/repository.h"
#include "serve/schedule/text_jobs.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum reply_form { FORM_JSON, FORM_TEXT, FORM_VERBOSE, FORM_SRT, FORM_VTT } reply_form;

struct spoken {
    struct exchange *exchange;
    struct transcription text;
    multipart_part file;             /* data NULL: none */
    char *model, *language, *prompt; /* owned; NULL: none */
    double temperature;
    reply_form form;
    bool has_granularity;
};

static void release(struct exchange *exchange)
{
    struct spoken *spoken = exchange->spoken;

    transcription_deinit(&spoken->text);
    free(spoken->model);
    free(spoken->language);
    free(spoken->prompt);
    free(spoken);
}

/* Refuses the request because of a field. */
static bool refuse(struct spoken *spoken, const char *field, const char *why)
{
    char text[256];

    (void)snprintf(text, sizeof text, "%.63s: %s", field, why);
    exchange_fail_parameter(spoken->exchange, HTTP_BAD_REQUEST, text, field, NULL);
    return false;
}

/* The texts of fields. Each has the field's part, which is not a file's. */

static bool take_text(struct spoken *spoken, const multipart_part *part, char **out)
{
    if (*out != NULL)
        return refuse(spoken, part->name, "it is given twice");
    if (memchr(part->data, '\0', part->bytes) != NULL || !utf8_is_valid(part->data, part->bytes))
        return refuse(spoken, part->name, "not a text in UTF-8");
    *out = strndup(part->data, part->bytes);
    if (*out == NULL)
        exchange_fail(spoken->exchange, HTTP_SERVICE_UNAVAILABLE, "no memory for the request");
    return *out != NULL;
}

static bool equals(const multipart_part *part, const char *text)
{
    return strlen(text) == part->bytes && memcmp(part->data, text, part->bytes) == 0;
}

static bool read_model(struct spoken *spoken, const multipart_part *part)
{
    return take_text(spoken, part, &spoken->model);
}

static bool read_language(struct spoken *spoken, const multipart_part *part)
{
    if (spoken->text.translates)
        return refuse(spoken, part->name,
                      "a translation is to English, and finds the language of the sound; remove it");
    return take_text(spoken, part, &spoken->language);
}

static bool read_prompt(struct spoken *spoken, const multipart_part *part)
{
    return take_text(spoken, part, &spoken->prompt);
}

static bool read_form(struct spoken *spoken, const multipart_part *part)
{
    static const char *const forms[] = { "json", "text", "verbose_json", "srt", "vtt" };

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (equals(part, forms[i])) {
            spoken->form = (reply_form)i;
            return true;
        }
    return refuse(spoken, part->name, "not json, text, verbose_json, srt or vtt");
}

static bool read_temperature(struct spoken *spoken, const multipart_part *part)
{
    char text[32], *end = text;
    double number = NAN;

    if (part->bytes < sizeof text) {
        (void)snprintf(text, sizeof text, "%.*s", (int)part->bytes, part->data);
        number = strtod(text, &end);
    }
    if (end == text || *end != '\0' || !(number >= 0 && number <= 1))
        return refuse(spoken, part->name, "not a number from 0 to 1");
    spoken->text.temperature = (float)number;
    return true;
}

static bool read_granularity(struct spoken *spoken, const multipart_part *part)
{
    spoken->has_granularity = true;
    return equals(part, "segment") || refuse(spoken, part->name, "only segment is supported, not the times of words");
}

static bool read_stream(struct spoken *spoken, const multipart_part *part)
{
    return equals(part, "false") || refuse(spoken, part->name, "only false is supported");
}

static bool read_field(struct spoken *spoken, const multipart_part *part)
{
    static const struct {
        const char *name;
        bool (*read)(struct spoken *spoken, const multipart_part *part);
    } rows[] = { { "model", read_model },
                 { "language", read_language },
                 { "prompt", read_prompt },
                 { "response_format", read_form },
                 { "temperature", read_temperature },
                 { "timestamp_granularities[]", read_granularity },
                 { "timestamp_granularities", read_granularity },
                 { "stream", read_stream } };

    if (strcmp(part->name, "file") == 0) {
        if (spoken->file.data != NULL)
            return refuse(spoken, part->name, "it is given twice");
        spoken->file = *part;
        return true;
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(part->name, rows[i].name) == 0)
            return part->is_file ? refuse(spoken, part->name, "a text, not a file") : rows[i].read(spoken, part);
    exchange_fail_parameter(spoken->exchange, HTTP_BAD_REQUEST,
                            "a field of the form is not supported, see param; remove it", part->name,
                            "unsupported_parameter");
    return false;
}

static bool read_request(struct exchange *exchange, struct spoken *spoken)
{
    char boundary[MULTIPART_BOUNDARY + 1];
    inlay_diag diag = INLAY_DIAG_INIT;
    struct multipart *form;
    bool good = true;

    if (!multipart_boundary(exchange_field_get(exchange, FIELD_CONTENT_TYPE), boundary)) {
        exchange_fail(exchange, HTTP_UNSUPPORTED_MEDIA_TYPE,
                      "Content-Type must be multipart/form-data with a boundary of at most 70 bytes");
        return false;
    }
    form = malloc(sizeof *form);
    if (form == NULL) {
        exchange_fail(exchange, HTTP_SERVICE_UNAVAILABLE, "no memory for the request");
        return false;
    }
    if (multipart_read(exchange->body_bytes > 0 ? exchange->body : "", exchange->body_bytes, boundary, form, &diag) !=
        INLAY_OK) {
        exchange_fail_diag(exchange, &diag);
        good = false;
    }
    for (size_t i = 0; good && i < form->count; i++)
        good = read_field(spoken, &form->parts[i]);
    free(form);
    if (good && spoken->file.data == NULL)
        good = refuse(spoken, "file", "the request has no file");
    if (good && spoken->has_granularity && spoken->form != FORM_VERBOSE)
        good = refuse(spoken, "timestamp_granularities[]", "only the response_format verbose_json has them");
    spoken->text.has_times = spoken->form >= FORM_VERBOSE;
    return good;
}

static double compression_of(const struct strbuf *text)
{
    struct strbuf coded = { .data = NULL };
    const double ratio = text->size > 0 && coding_compress(CODING_DEFLATE, text->data, text->size, &coded)
                             ? (double)text->size / (double)coded.size
                             : 0;

    strbuf_deinit(&coded);
    return ratio;
}

static void write_segments(const struct spoken *spoken, const speech_model *model, struct strbuf *to)
{
    const struct transcription *text = &spoken->text;

    strbuf_text(to, ",\"segments\":[");
    for (size_t i = 0; i < text->segment_count; i++) {
        const speech_segment *segment = &text->segments[i];
        struct strbuf part = { .data = NULL };

        speech_text(model, text->tokens + segment->first, segment->count, &part);
        strbuf_format(to, "%s{\"id\":%zu,\"seek\":%lld,\"start\":%.3f,\"end\":%.3f,\"text\":", i > 0 ? "," : "", i,
                      (long long)segment->seek, segment->begin, segment->end);
        strbuf_json(to, part.size > 0 ? part.data : "", part.size);
        strbuf_text(to, ",\"tokens\":[");
        for (size_t k = 0; k < segment->count; k++) {
            strbuf_text(to, k > 0 ? "," : "");
            strbuf_int(to, text->tokens[segment->first + k]);
        }
        strbuf_format(to,
                      "],\"temperature\":%.9g,\"avg_logprob\":%.9g,\"compression_ratio\":%.9g,\"no_speech_prob\":%.9g}",
                      segment->temperature, segment->logprob, compression_of(&part), segment->no_speech);
        to->failed |= part.failed;
        strbuf_deinit(&part);
    }
    strbuf_text(to, "]");
}

static void write_json(const struct spoken *spoken, const speech_model *model, struct strbuf *to)
{
    const struct transcription *text = &spoken->text;
    const int32_t language = text->language;
    struct strbuf whole = { .data = NULL };

    strbuf_text(to, "{");
    if (spoken->form == FORM_VERBOSE)
        strbuf_format(to, "\"task\":\"%s\",\"language\":\"%s\",\"duration\":%.3f,",
                      text->translates ? "translate" : "transcribe",
                      language != SPEECH_DETECT ? model->tokens.languages[language].code : "en", text->sound.seconds);
    transcription_text(model, text, &whole);
    strbuf_text(to, "\"text\":");
    strbuf_json(to, whole.size > 0 ? whole.data : "", whole.size);
    to->failed |= whole.failed;
    strbuf_deinit(&whole);
    if (spoken->form == FORM_VERBOSE)
        write_segments(spoken, model, to);
    strbuf_format(to, ",\"usage\":{\"type\":\"duration\",\"seconds\":%.0f}}", ceil(text->sound.seconds));
}

static void write_reply(const struct spoken *spoken)
{
    struct exchange *exchange = spoken->exchange;
    const speech_model *model = exchange->request.job.model->speech.model;
    struct strbuf *to = &exchange->reply;

    if (spoken->form == FORM_JSON || spoken->form == FORM_VERBOSE) {
        write_json(spoken, model, to);
    } else if (spoken->form == FORM_TEXT) {
        transcription_text(model, &spoken->text, to);
        strbuf_text(to, "\n");
    } else {
        transcription_subtitles(model, &spoken->text, spoken->form == FORM_SRT ? SUBTITLE_SRT : SUBTITLE_VTT, to);
    }
    if (spoken->form != FORM_JSON && spoken->form != FORM_VERBOSE)
        exchange->type = spoken->form == FORM_VTT ? "text/vtt; charset=utf-8" : "text/plain; charset=utf-8";
    exchange->code = HTTP_OK;
}

/* The callbacks of a transcription, and of the reading of its sound. */

static bool is_over(struct transcription *text, inlay_diag *diag)
{
    const struct spoken *spoken = text->user;

    return text_jobs_is_over(&spoken->exchange->request.job, diag);
}

static bool goes_on(void *user, inlay_diag *diag)
{
    return request_goes_on(user, diag);
}

static void end_text(struct transcription *text, const inlay_diag *failure)
{
    struct spoken *spoken = text->user;
    struct exchange *exchange = spoken->exchange;
    model_stats *stats = exchange->request.job.model->metrics.stats;

    watch_remove(exchange->request.server->watch, &exchange->request);
    exchange->request.compute_ns += text->compute_ns;
    exchange->request.run_rows = 1;
    if (failure != NULL) {
        exchange_fail_diag(exchange, failure);
        stats_add_error(stats, stats_error_of(failure->code), clock_ns() - exchange->request.arrived_ns);
    } else {
        write_reply(spoken);
        stats_add_time(&stats->request, clock_ns() - exchange->request.arrived_ns);
    }
    request_wake(&exchange->request);
}

/* Reads the sound and the fields that depend on the model. */
static inlay_status prepare(struct spoken *spoken, const speech_model *model, inlay_diag *diag)
{
    struct request *request = &spoken->exchange->request;
    struct transcription *text = &spoken->text;
    inlay_status status = speech_find_language(model, spoken->language, &text->language, diag);

    if (status == INLAY_OK && text->translates && model->tokens.language_count == 0)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "model: it has one language, and translates nothing");
    if (status == INLAY_OK)
        status = speech_hear(model, spoken->file.data, spoken->file.bytes, goes_on, request, &text->sound, diag);
    if (status == INLAY_OK && !request_count(request, (uint64_t)(text->sound.frames * model->mels) * sizeof(float)))
        status = inlay_fail(diag, INLAY_BUSY, REQUEST_IS_LARGE);
    return status;
}

/* Transcribes with job.model. The exchange may be suspended already, because it waited for its model. */
static void compute(struct exchange *exchange)
{
    struct spoken *spoken = exchange->spoken;
    speech_model *model = exchange->request.job.model->speech.model;
    inlay_diag diag = INLAY_DIAG_INIT;

    if (model == NULL)
        exchange_fail_parameter(exchange, HTTP_BAD_REQUEST,
                                "not a model for speech; that needs a folder of the model_type whisper with "
                                "encoder_model.onnx and decoder_model_merged.onnx, or decoder_model.onnx",
                                "model", NULL);
    else if (prepare(spoken, model, &diag) != INLAY_OK)
        exchange_fail_diag(exchange, &diag);
    if (exchange->code != 0) {
        exchange_drop(exchange);
        if (exchange->request.suspended)
            request_wake(&exchange->request);
        return;
    }
    spoken->text.prompt = spoken->prompt;
    spoken->text.is_over = is_over;
    spoken->text.end = end_text;
    spoken->text.user = spoken;
    request_suspend(&exchange->request);
    watch_add(exchange->request.server->watch, &exchange->request);
    if (speech_jobs_add(exchange->request.server->sched, exchange->request.job.model, &spoken->text, &diag) == INLAY_OK)
        return;
    watch_remove(exchange->request.server->watch, &exchange->request);
    exchange_fail_diag(exchange, &diag);
    request_wake(&exchange->request);
}

/* The model that the request waited for is loaded, or its load failed. */
static void model_loaded(void *user, const inlay_diag *failure)
{
    exchange_model_loaded(user, failure, compute);
}

void answer_transcriptions(struct exchange *exchange)
{
    struct spoken *spoken = calloc(1, sizeof *spoken);
    char only[MODELS_NAME_BYTES];
    const char *name;

    if (spoken == NULL) {
        exchange_fail(exchange, HTTP_SERVICE_UNAVAILABLE, "no memory for the sound");
        return;
    }
    spoken->exchange = exchange;
    spoken->text.translates = exchange->route.kind == ROUTE_TRANSLATIONS;
    exchange->spoken = spoken;
    exchange->release = release;
    if (!read_request(exchange, spoken)) {
        exchange_drop(exchange);
        return;
    }
    name = spoken->model;
    if (models_stand_in(exchange->request.server->repository, name, TEXT_TRANSCRIBES, only))
        name = only;
    if (name == NULL) {
        (void)refuse(spoken, "model", "the request has no model");
        exchange_drop(exchange);
    } else if (models_acquire(exchange, name, NULL, model_loaded) == ACQUIRED_MODEL) {
        compute(exchange);
    }
}
