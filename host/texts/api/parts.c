/* Opens the model of a text model, and its draft model. */
#include "base/memory.h"
#include "base/model_folder.h"
#include "texts/api/api.h"
#include "texts/draft/graft.h"
#include "texts/model/image_folder.h"
#include "texts/model/join.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    MOST_TEXTS = 65536,
    MOST_WAITING = 1 << 30,
    MOST_GUESSES = 16,
    TEXTS = 64, /* defaults */
    GUESSES = 8,
    PROMPT_TOKENS = 64,          /* that are read until texts get their next tokens */
    PREFIX_BYTES = 256 * 1048576 /* of the states of earlier texts */
};

/* Copies the options. A draft model and a vision part (is_other) get no adapters. takes_images: the model has a vision
 * part. */
static inlay_status copy_options(const inlay_options *from, bool is_other, bool takes_images, inlay_options **out,
                                 inlay_diag *diag)
{
    inlay_status status = inlay_options_copy(from, out, diag);

    if (status == INLAY_OK && is_other)
        status = inlay_options_set(*out, "adapter", "", diag);
    if (status == INLAY_OK)
        status = inlay_options_set(*out, "last_logits", "1", diag);
    if (status == INLAY_OK && takes_images)
        status = inlay_options_set(*out, "image_rows", "1", diag);
    return status;
}

/* Takes the names of the session's adapters from the options. */
static inlay_status name_adapters(inlay_text_model *model, const inlay_options *options, inlay_diag *diag)
{
    inlay_setting setting = { .struct_size = sizeof setting };

    for (uint32_t i = 0; options != NULL && inlay_options_setting(options, i, &setting) == INLAY_OK; i++) {
        if (strcmp(setting.name, "adapter") != 0 || setting.item == INLAY_NONE)
            continue;
        if (!LIST_GROW(model->adapters, model->adapter_count) ||
            (model->adapters[model->adapter_count] = strndup(setting.text, strcspn(setting.text, "="))) == NULL)
            return no_memory(diag, "for the names of adapters");
        model->adapter_count++;
    }
    return INLAY_OK;
}

/* Writes the path of the file: `given`, or if that is a folder, the file in it. */
static inlay_status find_file(const char *given, const char *variant, char out[PATH_MAX], inlay_diag *diag)
{
    struct stat st;

    if (stat(given, &st) == 0 && S_ISDIR(st.st_mode))
        return model_folder_find(given, variant != NULL ? variant : "", out, diag);
    if (variant != NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: only folders have variants", given);
    if (strlen(given) >= PATH_MAX)
        return inlay_fail(diag, INLAY_NOT_FOUND, "%.100s...: the path is too long", given);
    (void)snprintf(out, PATH_MAX, "%s", given);
    return INLAY_OK;
}

/* of: the path of the model that a draft model belongs to; NULL: it is none. embedding: the path of embed_tokens.onnx;
 * NULL: the file has it. */
static inlay_status open_session(text_part *part, const inlay_options *given, const char *of, const char *embedding,
                                 bool takes_images, inlay_diag *diag)
{
    inlay_options *options = NULL;
    inlay_status status;

    INLAY_TRY(copy_options(given, of != NULL, takes_images, &options, diag));
    if (of != NULL)
        INLAY_TRY(text_graft(part->path, of, options, &part->made, diag));
    if (embedding != NULL)
        INLAY_TRY(text_join(part->path, embedding, options, &part->made, diag));
    if (part->made.count > 0)
        INLAY_TRY(inlay_session_create_from_bytes(part->made.bytes, part->made.count, options, &part->session, diag));
    else
        INLAY_TRY(inlay_session_create(part->path, options, &part->session, diag));
done:
    inlay_options_destroy(options);
    return status;
}

/* Finds the parts of a decoder; part->text is NULL if the model generates no texts. */
static inlay_status open_text(text_part *part, const inlay_text_options *options, inlay_diag *diag)
{
    const text_source source = { part->session, part->path, options->tokenizer, options->context };
    inlay_status status = text_model_open(&source, &part->text, diag);

    if (status == INLAY_OK && part->text != NULL && part->text->decode.logits != INLAY_NONE)
        status = text_model_find_rows(part->text, NULL, diag);
    return status;
}

static inlay_status open_draft(text_part *part, const text_part *model, const inlay_text_options *options,
                               inlay_diag *diag)
{
    inlay_diag failure = INLAY_DIAG_INIT;
    text_source source = { NULL, part->path, options->tokenizer, options->context };
    inlay_status status = open_session(part, options->options, model->path, NULL, false, &failure);

    source.session = part->session;
    if (status == INLAY_OK)
        status = open_text(part, options, &failure);
    if (status == INLAY_OK && (part->text != NULL || !text_head_is_likely(part->session)))
        return text_model_check_draft(&source, part->text, model->text, diag);
    if (status == INLAY_OK)
        status = text_model_open_head(&source, model->text, model->path, NULL, &part->text, &failure);
    return status == INLAY_OK
               ? INLAY_OK
               : inlay_fail(diag, status, "%s: it cannot be a draft model: %s", part->path, failure.text);
}

/* Opens the vision part at path, and the encoder of images. folder: of a model in parts; NULL: it is an mmproj file. */
static inlay_status open_vision(inlay_text_model *owner, const inlay_text_options *given, const char *path,
                                const char *folder, inlay_diag *diag)
{
    const text_model *text = owner->model.text;
    text_part *part = &owner->vision;
    inlay_diag failure = INLAY_DIAG_INIT;
    inlay_options *options = NULL;
    inlay_status status;

    INLAY_TRY(find_file(path, NULL, part->path, &failure));
    INLAY_TRY(copy_options(given->options, true, false, &options, &failure));
    INLAY_TRY(inlay_session_create(part->path, options, &part->session, &failure));
    if (folder != NULL)
        INLAY_TRY(image_encoder_create_published(part->session, &(image_source){ folder, options, text->tokenizer },
                                                 &text->decode, &owner->encoder, &failure));
    else
        INLAY_TRY(image_encoder_create(part->session, &text->decode, &owner->encoder, &failure));
done:
    inlay_options_destroy(options);
    return status == INLAY_OK ? INLAY_OK : inlay_fail(diag, status, "%s: %s", path, failure.text);
}

/* Tells the decoder of a part what it needs to know of it. */
static void link_part(inlay_text_model *owner, text_part *part)
{
    part->text->decode.name = part->path;
    part->text->decode.owner = owner;
    part->text->decode.program = &text_program;
}

/* Sets the limits of the texts. */
static inlay_status set_limits(decode_model *decode, const inlay_text_options *options, inlay_diag *diag)
{
    const uint64_t kv = options->kv_memory;

    if (options->max_texts > MOST_TEXTS)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_text_options.max_texts is above %d", MOST_TEXTS);
    if (options->draft_tokens > MOST_GUESSES || options->lookup_tokens > MOST_GUESSES)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_text_options.%s is above %d",
                          options->draft_tokens > MOST_GUESSES ? "draft_tokens" : "lookup_tokens", MOST_GUESSES);
    decode->limits = (decode_limits){ .max_sequences = options->max_texts > 0 ? options->max_texts : TEXTS,
                                      .max_waiting = MOST_WAITING,
                                      .kv_memory = kv,
                                      .prefix_memory = kv > 0 && kv < PREFIX_BYTES ? kv : PREFIX_BYTES,
                                      .prompt_tokens = PROMPT_TOKENS,
                                      .draft_tokens = options->draft_tokens > 0 ? options->draft_tokens : GUESSES,
                                      .lookup_tokens = options->lookup_tokens };
    return INLAY_OK;
}

inlay_status text_parts_open(inlay_text_model *owner, const char *path, const inlay_text_options *options,
                             inlay_diag *diag)
{
    text_part *model = &owner->model, *draft = &owner->draft;
    const bool in_parts = image_folder_is(path), sees = in_parts || options->vision != NULL;
    image_files files = { .vision = "" };
    inlay_status status;

    if (in_parts) {
        INLAY_TRY(image_folder_check(path, NULL, diag));
        INLAY_TRY(image_files_find(path, options->variant != NULL ? options->variant : "", &files, diag));
        (void)snprintf(model->path, PATH_MAX, "%s", files.decoder);
    } else {
        INLAY_TRY(find_file(path, options->variant, model->path, diag));
    }
    INLAY_TRY(open_session(model, options->options, NULL, in_parts ? files.embedding : NULL, sees, diag));
    INLAY_TRY(open_text(model, options, diag));
    INLAY_TRY(name_adapters(owner, options->options, diag));
    if (model->text == NULL) {
        const text_source source = { model->session, model->path, options->tokenizer, options->context };
        char why[400];

        text_model_explain(&source, why, sizeof why);
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "%s: %s", model->path, why);
        goto done;
    }
    link_part(owner, model);
    INLAY_TRY(set_limits(&model->text->decode, options, diag));
    model->text->decode.adapter_count = owner->adapter_count;
    if (sees)
        INLAY_TRY(open_vision(owner, options, options->vision != NULL ? options->vision : files.vision,
                              options->vision != NULL ? NULL : path, diag));
    if (options->draft == NULL)
        goto done;
    INLAY_TRY(find_file(options->draft, NULL, draft->path, diag));
    INLAY_TRY(open_draft(draft, model, options, diag));
    link_part(owner, draft);
    draft->text->decode.limits = model->text->decode.limits;
    draft->text->decode.limits.draft_tokens = draft->text->decode.limits.lookup_tokens = 0;
    model->text->decode.draft = &draft->text->decode;
done:
    return status;
}

static void close_part(text_part *part)
{
    text_model_close(part->text);
    inlay_session_destroy(part->session);
    wire_deinit(&part->made);
}

void text_parts_close(inlay_text_model *model)
{
    close_part(&model->model); /* first: its runner has steps of the draft model */
    close_part(&model->draft);
    image_encoder_destroy(model->encoder);
    close_part(&model->vision);
    for (uint32_t i = 0; i < model->adapter_count; i++)
        free(model->adapters[i]);
    free(model->adapters);
}
