/* make_models.c - writes the models of modelkit.sh: make_models FOLDER. */
#include "planted.h"
#include <stdio.h>

static void write_model(const char *folder, const char *stem, struct wire *wire)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%.400s/%.100s.onnx", folder, stem);
    mw_save(wire, path);
    wire_deinit(wire);
}

/* y = twice(x), where twice is a function of the model, and weights without a consumer. */
static void write_function(const char *folder)
{
    struct wire wire = { 0 };
    wire_mark g = plant_begin(&wire, "2,16", 17), mark;

    plant_floats(&wire, "old", "32,64", 0.05F);
    mark = mw_node_begin(&wire, "twice", "x", "y");
    wire_text(&wire, 7, "my");
    wire_end(&wire, mark);
    plant_end(&wire, g, "2,16");
    mw_opset(&wire, 8, "my", 1);
    mark = mw_function_begin(&wire, "twice", "p", "q", "");
    mw_function_node(&wire, "", "Add", "p,p", "q");
    wire_end(&wire, mark);
    write_model(folder, "function", &wire);
}

/* A symbolic dimension whose name is as long as an axis of bench --sweep may be. */
static void write_long_name(const char *folder)
{
    static const char dims[] = "a_dimension_whose_name_has_63_bytes_xxxxxxxxxxxxxxxxxxxxxxxxxxx,16";
    struct wire wire = { 0 };
    const wire_mark mark = plant_begin(&wire, dims, 17);

    mw_node(&wire, "Relu", "x", "y");
    plant_end(&wire, mark, dims);
    write_model(folder, "long_name", &wire);
}

int main(int argc, char **argv)
{
    char stem[32];
    struct wire other = { 0 }, split = { 0 }, noise = { 0 };

    if (argc != 2)
        return 2;
    write_function(argv[1]);
    write_long_name(argv[1]);
    plant_two(&other, -0.05F);
    write_model(argv[1], "twice_other", &other);
    /* Provider `planted` runs all nodes except Exp. */
    script_model(&split, 13, "x : 64,64\n a = Add(x, x)\n e = Exp(a)\n y = Relu(e)\n -> y");
    write_model(argv[1], "split", &split);
    /* A Cast that --fix removes, in a model with random outputs. */
    script_model(&noise, 17, "x : 2,8\n r = RandomNormalLike(x)\n a = Cast(x) to=1\n y = Add(a, r)\n -> y");
    write_model(argv[1], "noise", &noise);
    for (int i = 0; i < PLANTED_COUNT; i++) {
        struct wire wire = { 0 };

        planted_models[i].write(&wire);
        write_model(argv[1], planted_models[i].file, &wire);
    }
    for (int i = 0; i < CLEAN_COUNT; i++) {
        struct wire wire = { 0 };

        (void)snprintf(stem, sizeof stem, "clean%d", i);
        script_model(&wire, 17, clean_models[i]);
        write_model(argv[1], stem, &wire);
    }
    return 0;
}
