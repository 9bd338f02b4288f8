#include "texts/model/image_folder.h"
#include "base/json_text.h"
#include "base/model_folder.h"
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

inlay_status image_folder_check(const char *folder, inlay_diag *diag)
{
    static const char *const kinds[] = { "llava", "llava_onevision", "idefics3", "smolvlm" };
    char path[PATH_MAX];
    json_t *config;
    bool known = false;
    inlay_status status = INLAY_OK;

    (void)snprintf(path, sizeof path, "%.4000s/config.json", folder);
    config = json_load_file(path, 0, NULL);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        known |= strcmp(json_text_of(config, "model_type"), kinds[i]) == 0;
    if (!known)
        status = inlay_fail(diag, INLAY_UNSUPPORTED,
                            "config.json: model_type '%.60s' reads images in a way that is not supported; llava, "
                            "llava_onevision, idefics3 and smolvlm are",
                            json_text_of(config, "model_type"));
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
