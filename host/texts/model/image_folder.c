#include "texts/model/image_folder.h"
#include "base/json_text.h"
#include "base/model_folder.h"
#include "base/strbuf.h"
#include <stdio.h>
#include <string.h>

enum { DECODER, EMBEDDING, VISION, PARTS };
static const char *const names[PARTS] = { "decoder_model_merged", "embed_tokens", "vision_encoder" };

static bool find_parts(const model_folder *folder, uint32_t out[PARTS])
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < folder->count; i++)
        for (uint32_t k = 0; k < PARTS; k++)
            if (strcmp(folder->parts[i], names[k]) == 0) {
                out[k] = i;
                found++;
            }
    return found == PARTS;
}

bool image_folder_is(const char *folder)
{
    model_folder parts;
    uint32_t found[PARTS];

    return model_folder_read(folder, &parts, NULL) == INLAY_OK && parts.is_published && find_parts(&parts, found);
}

inlay_status image_folder_check(const char *folder, const image_kind **out_kind, inlay_diag *diag)
{
    static const image_kind kinds[] = {
        { "llava", "", "", false },     { "llava_onevision", "", "", false },
        { "idefics3", "", "", false },  { "smolvlm", "", "", false },
        { "paligemma", "", "", false }, { "gemma3", "\n\n<start_of_image>", "<end_of_image>\n\n", false },
        { "qwen2_vl", "", "", true },   { "qwen2_5_vl", "", "", true }
    };
    const image_kind *kind = NULL;
    char path[PATH_MAX];
    struct strbuf known = { 0 };
    json_t *config;
    inlay_status status = INLAY_OK;

    (void)snprintf(path, sizeof path, "%.4000s/config.json", folder);
    config = json_load_file(path, 0, NULL);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        strbuf_format(&known, "%s%s", i > 0 ? ", " : "", kinds[i].name);
        if (strcmp(json_text_of(config, "model_type"), kinds[i].name) == 0)
            kind = &kinds[i];
    }
    if (kind == NULL)
        status = inlay_fail(diag, INLAY_UNSUPPORTED,
                            "config.json: model_type '%.60s' reads images in a way that is not supported; these are "
                            "supported: %s",
                            json_text_of(config, "model_type"), known.data != NULL ? known.data : "");
    if (out_kind != NULL)
        *out_kind = kind;
    strbuf_deinit(&known);
    json_decref(config);
    return status;
}

inlay_status image_files_find(const char *folder, const char *variant, image_files *out_files, inlay_diag *diag)
{
    char *const paths[PARTS] = { out_files->decoder, out_files->embedding, out_files->vision };
    model_folder parts;
    uint32_t found[PARTS];
    inlay_status status = model_folder_read(folder, &parts, diag);

    if (status == INLAY_OK && !find_parts(&parts, found))
        status = inlay_fail(diag, INLAY_NOT_FOUND, "%s lacks %s.onnx, %s.onnx or %s.onnx", folder, names[DECODER],
                            names[EMBEDDING], names[VISION]);
    for (uint32_t i = 0; i < PARTS && status == INLAY_OK; i++)
        status = model_folder_choose(&parts, found[i], variant, paths[i], diag);
    return status;
}
