#include "base/json_text.h"
#include "base/memory.h"
#include "base/model_folder.h"
#include "prepost/audio/spectrogram.h"
#include "texts/speech/speech.h"
#include "texts/speech/transcriber.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static json_t *load_json(const char *folder, const char *name)
{
    char path[PATH_MAX];
    const int bytes = snprintf(path, sizeof path, "%s/%s", folder, name);

    return bytes > 0 && (size_t)bytes < sizeof path ? json_load_file(path, 0, NULL) : NULL;
}

/* The part of the folder with this name; false: it has none. */
static bool find_part(const model_folder *folder, const char *name, uint32_t *out)
{
    for (*out = 0; *out < folder->count; (*out)++)
        if (strcmp(folder->parts[*out], name) == 0)
            return true;
    return false;
}

static bool find_decoder(const model_folder *folder, uint32_t *out)
{
    return find_part(folder, "decoder_model_merged", out) || find_part(folder, "decoder_model", out);
}

bool speech_is_folder(const char *folder)
{
    json_t *config = load_json(folder, "config.json");
    const bool is_whisper = strcmp(json_text_of(config, "model_type"), "whisper") == 0;
    model_folder parts;
    uint32_t part;

    json_decref(config);
    return is_whisper && model_folder_read(folder, &parts, NULL) == INLAY_OK &&
           find_part(&parts, "encoder_model", &part) && find_decoder(&parts, &part);
}

inlay_status speech_files_find(const char *folder, const char *variant, speech_files *out_files, inlay_diag *diag)
{
    model_folder parts;
    uint32_t part;
    inlay_status status = model_folder_read(folder, &parts, diag);

    out_files->past[0] = '\0';
    if (status == INLAY_OK && !find_part(&parts, "encoder_model", &part))
        status = inlay_fail(diag, INLAY_NOT_FOUND, "%s has no encoder_model.onnx", folder);
    if (status == INLAY_OK)
        status = model_folder_choose(&parts, part, variant, out_files->encoder, diag);
    if (status == INLAY_OK && !find_decoder(&parts, &part))
        status = inlay_fail(diag, INLAY_NOT_FOUND, "%s has neither decoder_model_merged.onnx nor decoder_model.onnx",
                            folder);
    if (status == INLAY_OK)
        status = model_folder_choose(&parts, part, variant, out_files->decoder, diag);
    if (status == INLAY_OK && find_part(&parts, "decoder_with_past_model", &part))
        status = model_folder_choose(&parts, part, variant, out_files->past, diag);
    return status;
}

/* generation_config.json. */
static inlay_status load_generation(const char *folder, json_t **out_root, inlay_diag *diag)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof path, "%.4000s/generation_config.json", folder);
    return generation_parse(NULL, access(path, F_OK) == 0 ? path : NULL, out_root, diag);
}

/* The files of the folder's settings. */
typedef struct speech_settings {
    json_t *config, *generation, *preprocessor; /* config.json, generation_config.json, preprocessor_config.json */
} speech_settings;

/* A member of generation_config.json, or else of config.json, where older exports have it. */
static const json_t *setting_of(const speech_settings *settings, const char *name)
{
    const json_t *value = json_object_get(settings->generation, name);

    return value != NULL ? value : json_object_get(settings->config, name);
}

/* A whole number; a missing one leaves *out as it is. */
static inlay_status read_number(const json_t *value, const char *name, int64_t least, int64_t most, int64_t *out,
                                inlay_diag *diag)
{
    if (value == NULL || json_is_null(value))
        return INLAY_OK;
    if (!json_is_integer(value) || json_integer_value(value) < least || json_integer_value(value) > most)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s is not a whole number from %lld to %lld", name,
                          (long long)least, (long long)most);
    *out = json_integer_value(value);
    return INLAY_OK;
}

/* Reads the rules of generation_config.json. Older exports have suppressed tokens in config.json. */
static inlay_status find_rules(speech_model *model, const speech_settings *settings, inlay_diag *diag)
{
    static const char *const names[] = { "suppress_tokens", "begin_suppress_tokens" };
    json_t *members = json_copy(settings->generation);
    inlay_status status = members != NULL ? INLAY_OK : no_memory(diag, "for generation_config.json");

    for (size_t i = 0; i < sizeof names / sizeof *names && status == INLAY_OK; i++) {
        json_t *older = json_object_get(settings->config, names[i]);

        if (older != NULL && json_object_get(members, names[i]) == NULL &&
            json_object_set(members, names[i], older) != 0)
            status = no_memory(diag, "for generation_config.json");
    }
    if (status == INLAY_OK)
        status = generation_read(members, GENERATION_SPEECH, &model->tokens.end, 1, &model->generation, diag);
    json_decref(members);
    return status;
}

/* A threshold of generation_config.json by its name in transformers; null: none. */
static inlay_status read_threshold(const json_t *generation, const char *name, double otherwise, double none,
                                   double *out, inlay_diag *diag)
{
    const json_t *value = json_object_get(generation, name);

    if (value != NULL && !json_is_number(value) && !json_is_null(value))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "generation_config.json: %s is not a number", name);
    *out = value == NULL ? otherwise : json_is_null(value) ? none : json_number_value(value);
    return INLAY_OK;
}

/* The defaults are those of openai/whisper. */
static inlay_status find_doubts(const json_t *generation, speech_doubts *doubts, inlay_diag *diag)
{
    inlay_status status;

    INLAY_TRY(read_threshold(generation, "logprob_threshold", -1, -INFINITY, &doubts->logprob, diag));
    INLAY_TRY(read_threshold(generation, "compression_ratio_threshold", 2.4, INFINITY, &doubts->compression, diag));
    INLAY_TRY(read_threshold(generation, "no_speech_threshold", 0.6, INFINITY, &doubts->no_speech, diag));
done:
    return status;
}

/* Reads the code of a language in a token such as <|en|>. */
static bool read_code(const struct tokenizer *tokenizer, int64_t token, char code[SPEECH_CODE])
{
    size_t bytes = 0;
    bool special;
    const char *text = tokenizer_bytes(tokenizer, token, &bytes, &special);

    if (text == NULL || bytes < 6 || bytes > SPEECH_CODE + 3 || strncmp(text, "<|", 2) != 0 ||
        strncmp(text + bytes - 2, "|>", 2) != 0)
        return false;
    for (size_t i = 2; i < bytes - 2; i++)
        if (text[i] < 'a' || text[i] > 'z')
            return false;
    (void)snprintf(code, SPEECH_CODE, "%.*s", (int)(bytes - 4), text + 2);
    return true;
}

/* The languages follow the token of the start. */
static inlay_status find_languages(speech_model *model, const speech_settings *settings, inlay_diag *diag)
{
    const json_t *multilingual = setting_of(settings, "is_multilingual");
    speech_tokens *tokens = &model->tokens;
    speech_language language;

    if (json_is_false(multilingual))
        return INLAY_OK;
    for (int64_t token = tokens->start + 1; read_code(model->tokenizer, token, language.code); token++) {
        if (!LIST_GROW(tokens->languages, tokens->language_count))
            return no_memory(diag, "for the languages of the model");
        language.token = token;
        tokens->languages[tokens->language_count++] = language;
    }
    if (tokens->language_count > 0 && (tokens->transcribe < 0 || tokens->translate < 0))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "tokenizer.json: it has languages, but not the tokens <|transcribe|> and <|translate|>");
    return INLAY_OK;
}

static inlay_status find_tokens(speech_model *model, const speech_settings *settings, inlay_diag *diag)
{
    speech_tokens *tokens = &model->tokens;
    int64_t most = 448, context = 448;
    inlay_status status;

    tokens->start = tokenizer_id(model->tokenizer, "<|startoftranscript|>");
    tokens->end = tokenizer_id(model->tokenizer, "<|endoftext|>");
    tokens->previous = tokenizer_id(model->tokenizer, "<|startofprev|>");
    tokens->transcribe = tokenizer_id(model->tokenizer, "<|transcribe|>");
    tokens->translate = tokenizer_id(model->tokenizer, "<|translate|>");
    tokens->no_times = tokenizer_id(model->tokenizer, "<|notimestamps|>");
    tokens->no_speech = tokenizer_id(model->tokenizer, "<|nospeech|>");
    if (tokens->no_speech < 0)
        tokens->no_speech = tokenizer_id(model->tokenizer, "<|nocaptions|>");
    INLAY_TRY(read_number(setting_of(settings, "decoder_start_token_id"), "decoder_start_token_id", 0, INT32_MAX,
                          &tokens->start, diag));
    INLAY_TRY(read_number(setting_of(settings, "eos_token_id"), "eos_token_id", 0, INT32_MAX, &tokens->end, diag));
    INLAY_TRY(read_number(setting_of(settings, "no_timestamps_token_id"), "no_timestamps_token_id", 0, INT32_MAX,
                          &tokens->no_times, diag));
    if (tokens->start < 0 || tokens->end < 0) {
        status =
            inlay_fail(diag, INLAY_INVALID_ARGUMENT, "tokenizer.json: it lacks <|startoftranscript|> or <|endoftext|>");
        goto done;
    }
    tokens->first_time = tokens->no_times >= 0 ? tokens->no_times + 1 : -1;
    tokens->initial_time = -1;
    INLAY_TRY(read_number(setting_of(settings, "max_initial_timestamp_index"), "max_initial_timestamp_index", 0,
                          INT32_MAX, &tokens->initial_time, diag));
    INLAY_TRY(read_number(setting_of(settings, "max_length"), "max_length", 8, 1 << 20, &most, diag));
    INLAY_TRY(read_number(json_object_get(settings->config, "max_target_positions"), "max_target_positions", 8, 1 << 20,
                          &context, diag));
    tokens->most = (size_t)(most < context ? most : context);
    INLAY_TRY(find_languages(model, settings, diag));
done:
    return status;
}

static inlay_status find_spectrogram(speech_model *model, const speech_settings *settings, inlay_diag *diag)
{
    const json_t *form = settings->preprocessor;
    const char *extractor = json_text_of(form, "feature_extractor_type");
    int64_t mels = 80, hop = 160, fft = 400, seconds = 30, bins = 0;
    inlay_status status;

    if (form == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "it has no preprocessor_config.json, or a damaged one");
    if (extractor[0] != '\0' && strcmp(extractor, "WhisperFeatureExtractor") != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "preprocessor_config.json: feature_extractor_type '%.60s' is not WhisperFeatureExtractor",
                          extractor);
    if (json_number_value(json_object_get(form, "dither")) != 0)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "preprocessor_config.json: dither is not supported; remove it");
    model->rate = 16000;
    INLAY_TRY(read_number(json_object_get(form, "feature_size"), "feature_size", 1, 1024, &mels, diag));
    INLAY_TRY(read_number(json_object_get(form, "hop_length"), "hop_length", 1, 65536, &hop, diag));
    INLAY_TRY(read_number(json_object_get(form, "n_fft"), "n_fft", 2, 65536, &fft, diag));
    INLAY_TRY(read_number(json_object_get(form, "chunk_length"), "chunk_length", 1, 600, &seconds, diag));
    INLAY_TRY(read_number(json_object_get(form, "sampling_rate"), "sampling_rate", 1000, 192000, &model->rate, diag));
    INLAY_TRY(read_number(json_object_get(settings->config, "num_mel_bins"), "num_mel_bins", 1, 1024, &bins, diag));
    if (bins != 0 && bins != mels) {
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                            "preprocessor_config.json: feature_size is %lld, but num_mel_bins of config.json %lld",
                            (long long)mels, (long long)bins);
        goto done;
    }
    model->window_frames = seconds * model->rate / hop;
    model->mels = mels;
    model->hop = hop;
    model->spectrogram = calloc(1, sizeof *model->spectrogram);
    if (model->spectrogram == NULL) {
        status = no_memory(diag, "for the spectrogram");
        goto done;
    }
    *model->spectrogram = (struct spectrogram){
        .n_fft = fft, .hop = hop, .mels = mels, .centre = true, .reflect = true, .drop_last = true, .power = 2
    };
    if (!spectrogram_init(model->spectrogram, (double)model->rate, 0, (double)model->rate / 2, false, true))
        status = no_memory(diag, "for the filters of the spectrogram");
done:
    return status;
}

static inlay_status find_encoder(speech_model *model, inlay_diag *diag)
{
    const inlay_session *session = model->encoder.session;
    inlay_io_info info = { .struct_size = sizeof info };

    model->features = inlay_session_find_input(session, "input_features");
    model->hidden = inlay_session_find_output(session, "last_hidden_state");
    if (model->features == INLAY_NONE || model->hidden == INLAY_NONE)
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "encoder_model: it has not the input input_features and the output last_hidden_state");
    for (uint32_t i = 0; inlay_session_input(session, i, &info) == INLAY_OK; i++)
        if (i != model->features && info.optional == 0)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "encoder_model: input '%.100s' is not supplied", info.name);
    (void)inlay_session_input(session, model->features, &info);
    if (info.dtype != INLAY_FLOAT || info.rank != 3)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "encoder_model: input_features is not float32 of 3 axes");
    if ((info.dims[1] >= 0 && info.dims[1] != model->mels) ||
        (info.dims[2] >= 0 && info.dims[2] != model->window_frames))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "encoder_model: input_features is [%lld, %lld], but preprocessor_config.json says "
                          "[%lld, %lld]",
                          (long long)info.dims[1], (long long)info.dims[2], (long long)model->mels,
                          (long long)model->window_frames);
    return INLAY_OK;
}

static const char past_name[] = "past_key_values.";

/* The session whose inputs past_key_values.* are the states; NULL: none has such inputs. */
static const inlay_session *session_of_states(const speech_model *model)
{
    return model->next.model.session != NULL ? model->next.model.session : model->decoder.model.session;
}

/* Numbers the states: the inputs past_key_values.* in their order. */
static inlay_status find_states(speech_model *model, inlay_diag *diag)
{
    inlay_io_info info = { .struct_size = sizeof info };

    for (uint32_t i = 0; inlay_session_input(session_of_states(model), i, &info) == INLAY_OK; i++) {
        if (strncmp(info.name, past_name, strlen(past_name)) != 0)
            continue;
        if (info.dtype != INLAY_FLOAT || info.rank != 4)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "decoder: input '%.100s' is not float32 of 4 axes", info.name);
        if (!LIST_GROW(model->is_cross, model->state_count))
            return no_memory(diag, "for the states of the decoder");
        model->is_cross[model->state_count++] = strstr(info.name, ".encoder.") != NULL;
    }
    return INLAY_OK;
}

/* The output of a decoder that is the state `name`: present.0.decoder.key for past_key_values.0.decoder.key. */
static uint32_t output_of_state(const inlay_session *session, const char *name)
{
    char output[128];

    (void)snprintf(output, sizeof output, "present.%.100s", name + strlen(past_name));
    return inlay_session_find_output(session, output);
}

static inlay_status find_outputs(const speech_model *model, speech_decoder *decoder, inlay_diag *diag)
{
    const inlay_session *states = session_of_states(model);
    inlay_io_info info = { .struct_size = sizeof info };
    uint32_t state = 0;

    decoder->model.logits = inlay_session_find_output(decoder->model.session, "logits");
    if (decoder->model.logits == INLAY_NONE ||
        inlay_session_output(decoder->model.session, decoder->model.logits, &info) != INLAY_OK ||
        info.dtype != INLAY_FLOAT)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "decoder: it has no output logits of float32");
    decoder->states = calloc(model->state_count + 1u, sizeof *decoder->states);
    if (decoder->states == NULL)
        return no_memory(diag, "for the states of the decoder");
    for (uint32_t i = 0; inlay_session_input(states, i, &info) == INLAY_OK; i++) {
        if (strncmp(info.name, past_name, strlen(past_name)) != 0)
            continue;
        decoder->states[state] = output_of_state(decoder->model.session, info.name);
        if (decoder->states[state] == INLAY_NONE && !(model->is_cross[state] && decoder == &model->next))
            return inlay_fail(diag, INLAY_UNSUPPORTED, "decoder: it has no output for '%.100s'", info.name);
        state++;
    }
    return INLAY_OK;
}

static inlay_status find_decoder_inputs(speech_decoder *decoder, inlay_diag *diag)
{
    const inlay_session *session = decoder->model.session;
    inlay_io_info info = { .struct_size = sizeof info };
    uint32_t states = 0;

    decoder->input_count = inlay_session_input_count(session);
    decoder->inputs = calloc(decoder->input_count + 1u, sizeof *decoder->inputs);
    if (decoder->inputs == NULL)
        return no_memory(diag, "for the inputs of the decoder");
    for (uint32_t i = 0; i < decoder->input_count; i++) {
        speech_input *input = &decoder->inputs[i];

        (void)inlay_session_input(session, i, &info);
        if (strcmp(info.name, "input_ids") == 0 && info.dtype == INLAY_INT64) {
            input->role = SPEECH_IDS;
        } else if (strcmp(info.name, "encoder_hidden_states") == 0 && info.dtype == INLAY_FLOAT) {
            input->role = SPEECH_HIDDEN;
        } else if (strncmp(info.name, past_name, strlen(past_name)) == 0) {
            *input = (speech_input){ SPEECH_PAST, states++ };
            decoder->has_past = true;
        } else if (strcmp(info.name, "use_cache_branch") == 0 && info.dtype == INLAY_BOOL) {
            input->role = SPEECH_BRANCH;
            decoder->has_branch = true;
        } else if (strcmp(info.name, "cache_position") == 0 && info.dtype == INLAY_INT64 && info.rank == 1) {
            input->role = SPEECH_POSITIONS;
        } else {
            return inlay_fail(diag, INLAY_UNSUPPORTED, "decoder: input '%.100s' is not supplied", info.name);
        }
    }
    return INLAY_OK;
}

static inlay_status find_decoders(speech_model *model, const speech_settings *settings, inlay_diag *diag)
{
    int64_t width = 0;
    inlay_status status;

    INLAY_TRY(read_number(json_object_get(settings->config, "decoder_attention_heads"), "decoder_attention_heads", 1,
                          65536, &model->heads, diag));
    INLAY_TRY(read_number(json_object_get(settings->config, "d_model"), "d_model", 1, 1 << 20, &width, diag));
    if (model->heads == 0 || width == 0 || width % model->heads != 0) {
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                            "config.json: d_model and decoder_attention_heads are missing, or do not fit");
        goto done;
    }
    model->head_width = width / model->heads;
    INLAY_TRY(find_states(model, diag));
    INLAY_TRY(find_decoder_inputs(&model->decoder, diag));
    INLAY_TRY(find_outputs(model, &model->decoder, diag));
    if (model->next.model.session != NULL) {
        INLAY_TRY(find_decoder_inputs(&model->next, diag));
        INLAY_TRY(find_outputs(model, &model->next, diag));
    }
    if (model->decoder.has_past && !model->decoder.has_branch) /* it is decoder_with_past_model under another name */
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "decoder: it has past_key_values, but no input use_cache_branch");
done:
    return status;
}

static inlay_status open_parts(speech_model *model, const char *folder, const speech_settings *settings,
                               inlay_diag *diag)
{
    char path[PATH_MAX], error[sizeof diag->text];
    inlay_status status = INLAY_OK;

    (void)snprintf(path, sizeof path, "%.4000s/tokenizer.json", folder);
    model->tokenizer = tokenizer_open(path, error, sizeof error);
    if (model->tokenizer == NULL) {
        status = inlay_fail(diag, is_shortage(error) ? INLAY_IO_ERROR : INLAY_INVALID_ARGUMENT, "%s", error);
        goto done;
    }
    INLAY_TRY(find_doubts(settings->generation, &model->doubts, diag));
    INLAY_TRY(find_tokens(model, settings, diag));
    INLAY_TRY(find_rules(model, settings, diag));
    INLAY_TRY(find_spectrogram(model, settings, diag));
    INLAY_TRY(find_encoder(model, diag));
    INLAY_TRY(find_decoders(model, settings, diag));
done:
    return status;
}

inlay_status speech_model_open(const speech_source *source, speech_model **out_model, inlay_diag *diag)
{
    speech_settings settings = { .config = load_json(source->folder, "config.json"),
                                 .preprocessor = load_json(source->folder, "preprocessor_config.json") };
    speech_model *model = calloc(1, sizeof *model);
    inlay_diag failure = INLAY_DIAG_INIT;
    inlay_status status;

    *out_model = NULL;
    if (model == NULL) {
        status = no_memory(diag, "for the model");
    } else {
        model->encoder.session = source->encoder;
        model->decoder.model.session = source->decoder;
        model->next.model.session = source->past;
        status = load_generation(source->folder, &settings.generation, &failure);
        if (status == INLAY_OK)
            status = open_parts(model, source->folder, &settings, &failure);
        if (status != INLAY_OK)
            status = inlay_fail(diag, status, "%.200s: %s", source->folder, failure.text);
    }
    json_decref(settings.config);
    json_decref(settings.generation);
    json_decref(settings.preprocessor);
    if (status == INLAY_OK)
        *out_model = model;
    else
        speech_model_close(model);
    return status;
}

static void close_decoder(speech_decoder *decoder)
{
    free(decoder->inputs);
    free(decoder->states);
}

void speech_model_close(speech_model *model)
{
    if (model == NULL)
        return;
    speech_runner_close(model);
    close_decoder(&model->decoder);
    close_decoder(&model->next);
    if (model->spectrogram != NULL)
        spectrogram_deinit(model->spectrogram);
    free(model->spectrogram);
    tokenizer_close(model->tokenizer);
    generation_deinit(&model->generation);
    free(model->tokens.languages);
    free(model->is_cross);
    free(model);
}

inlay_status speech_find_language(const speech_model *model, const char *code, int32_t *out_language, inlay_diag *diag)
{
    const speech_tokens *tokens = &model->tokens;

    *out_language = SPEECH_DETECT;
    if (code == NULL || code[0] == '\0')
        return INLAY_OK;
    for (size_t i = 0; i < tokens->language_count; i++)
        if (strcmp(tokens->languages[i].code, code) == 0) {
            *out_language = (int32_t)i;
            return INLAY_OK;
        }
    if (tokens->language_count == 0 && strcmp(code, "en") == 0)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "language: the model has no language '%.40s'; use a code such as en", code);
}
