/* Control flow and lists: nested bodies, captured values, carried values, values that become outputs of the graph,
 * errors in bodies. */
#include "graph_script.h"

/* Writes, in an open node, a body with one output that is computed from captured values only. */
static void branch(struct wire *wire, const char *attr, const char *op, const char *inputs, const char *out, int dtype)
{
    mw_body body = mw_body_begin(wire, attr, attr);

    mw_node(wire, op, inputs, out);
    mw_value(wire, MW_OUTPUT, out, dtype, NULL);
    mw_body_end(wire, body);
}

/* Writes the inputs of a Loop's body: iteration "i", condition "c". */
static mw_body loop_body(struct wire *wire)
{
    mw_body body = mw_body_begin(wire, "body", "loop_body");

    mw_value(wire, MW_INPUT, "i", RIG_INT64, "");
    mw_value(wire, MW_INPUT, "c", RIG_BOOL, "");
    return body;
}

/* if (outer) for (i < n) acc = i % 2 ? acc + x : acc * two; else acc = x. x is captured through two levels, two from
 * the main graph. */
static void if_in_loop_in_if(void **state)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), outer, loop, inner;
    mw_body then, body;
    struct rig rig;

    (void)state;
    mw_value(&wire, MW_INPUT, "outer", RIG_BOOL, "");
    mw_value(&wire, MW_INPUT, "n", RIG_INT64, "");
    mw_value(&wire, MW_INPUT, "x", RIG_FLOAT, "N");
    mw_scalar(&wire, "two", RIG_FLOAT, 2);
    mw_ints(&wire, "itwo", 0, 1, (int64_t[]){ 2 });
    outer = mw_node_begin(&wire, "If", "outer", "y");
    then = mw_body_begin(&wire, "then_branch", "then");
    mw_node(&wire, "Neg", "x", "start");
    loop = mw_node_begin(&wire, "Loop", "n,_,start", "final");
    body = loop_body(&wire);
    mw_value(&wire, MW_INPUT, "acc", RIG_FLOAT, NULL);
    mw_node(&wire, "Identity", "c", "go");
    mw_node(&wire, "Mod", "i,itwo", "odd_number");
    mw_node_int(&wire, "Cast", "odd_number", "odd", "to", RIG_BOOL);
    inner = mw_node_begin(&wire, "If", "odd", "next");
    branch(&wire, "then_branch", "Add", "acc,x", "added", RIG_FLOAT);
    branch(&wire, "else_branch", "Mul", "acc,two", "doubled", RIG_FLOAT);
    wire_end(&wire, inner);
    mw_value(&wire, MW_OUTPUT, "go", RIG_BOOL, "");
    mw_value(&wire, MW_OUTPUT, "next", RIG_FLOAT, NULL);
    mw_body_end(&wire, body);
    wire_end(&wire, loop);
    mw_value(&wire, MW_OUTPUT, "final", RIG_FLOAT, NULL);
    mw_body_end(&wire, then);
    branch(&wire, "else_branch", "Identity", "x", "same", RIG_FLOAT);
    wire_end(&wire, outer);
    mw_value(&wire, MW_OUTPUT, "y", RIG_FLOAT, NULL);
    wire_end(&wire, mark);
    rig = rig_open(&wire, NULL);
    for (int64_t n = 0; n < 12; n++) {
        uint8_t yes = n % 3 != 2;
        float x[3] = { 1, 2, (float)n }, y[3];
        int64_t count = n % 2 == 0 ? 3 : 2;

        for (int k = 0; k < 3; k++) {
            y[k] = yes ? -x[k] : x[k];
            for (int64_t i = 0; yes && i < n; i++)
                y[k] = i % 2 != 0 ? y[k] + x[k] : y[k] * 2;
        }
        rig_set(&rig, 0, INLAY_BOOL, "", &yes);
        rig_set(&rig, 1, INLAY_INT64, "", &n);
        rig_floats(&rig, 2, count == 3 ? "3" : "2", x);
        rig_run(&rig);
        rig_expect_floats(&rig, 0, count == 3 ? "3" : "2", y);
    }
    rig_close(&rig);
}

/* Carried values: a tensor that grows in each iteration, a value passed through, two values that are swapped, a
 * constant, a captured value as result; and their scan outputs. Also with zero iterations. */
static void carried_values(void **state)
{
    inlay_value *kept = NULL;
    struct rig rig;

    (void)state;
    rig = script_open(NULL, 17,
                      "n : int64 -\n"
                      "x : 2\n"
                      "z : 2\n"
                      "grown,through,first,second,const,scan_first,scan_x,scan_i = Loop(n,_,x,x,x,z,z) body {\n"
                      "    i : int64 -\n"
                      "    c : bool -\n"
                      "    g_in : float\n"
                      "    t_in : 2\n"
                      "    f_in : 2\n"
                      "    s_in : 2\n"
                      "    k_in : 2\n"
                      "    ones = [2] 1,1\n"
                      "    g_out = Concat(g_in,z) axis=0\n"
                      "    -> c : bool -\n"
                      "    -> g_out\n"
                      "    -> t_in, s_in, f_in, ones, f_in, x : 2\n"
                      "    -> i : int64 -\n"
                      "}\n"
                      "-> grown, through, first, second, const, scan_first, scan_x\n"
                      "-> scan_i : int64");
    for (int64_t round = 0; round < 8; round++) {
        int64_t n = (round * 3) % 5, steps[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
        float x[] = { 1, (float)round }, z[] = { -1, -2 }, all[2 + 2 * 5], firsts[2 * 5], xs[2 * 5];
        char two_n[8], n2[8], one_n[8];

        memcpy(all, x, sizeof x);
        for (int64_t i = 0; i < n; i++) {
            memcpy(all + 2 + 2 * i, z, sizeof z);
            memcpy(firsts + 2 * i, i % 2 == 0 ? x : z, sizeof x);
            memcpy(xs + 2 * i, x, sizeof x);
        }
        (void)snprintf(two_n, sizeof two_n, "%d", (int)(2 + 2 * n));
        (void)snprintf(n2, sizeof n2, "%d,2", (int)n);
        (void)snprintf(one_n, sizeof one_n, "%d", (int)n);
        rig_set(&rig, 0, INLAY_INT64, "", &n);
        rig_floats(&rig, 1, "2", x);
        rig_floats(&rig, 2, "2", z);
        rig_run(&rig);
        rig_expect_floats(&rig, 0, two_n, all);
        rig_expect_floats(&rig, 1, "2", x);
        rig_expect_floats(&rig, 2, "2", n % 2 == 0 ? x : z);
        rig_expect_floats(&rig, 3, "2", n % 2 == 0 ? z : x);
        rig_expect_floats(&rig, 4, "2", n == 0 ? z : (float[]){ 1, 1 });
        rig_expect_floats(&rig, 5, n2, firsts);
        rig_expect_floats(&rig, 6, n2, xs);
        rig_expect_ints(&rig, 7, one_n, steps);
        if (kept != NULL) /* of the previous round */
            rig_expect(kept, INLAY_FLOAT, "2", (float[]){ 1, (float)(round - 1) });
        inlay_value_unref(kept);
        kept = inlay_value_ref(inlay_context_output(rig.context, 1));
    }
    inlay_value_unref(kept);
    rig_close(&rig);
}

/* If a loop has no iteration, its scan outputs have no rows; the size of a row is the one that a first iteration would
 * give, and 0 where that depends on data. Names of sizes are those of the inputs, and the body declares none. */
static void no_iteration(void **state)
{
    static const char *const levels[] = { "0", "99" };
    static const char *const sizes[][4] = { { "2,3", "0,2,3", "0,3", "6,0" }, { "5,1", "0,5,1", "0,1", "2,0" } };

    (void)state;
    for (size_t level = 0; level < 2; level++) {
        struct rig rig = script_open((const char *const[]){ "level", levels[level], NULL }, 17,
                                     "n : int64 -\n"
                                     "x : A,B\n"
                                     "z : T,B\n"
                                     "dims : int64 R\n"
                                     "last,rows,shaped = Loop(n,_,x) body {\n"
                                     "    i : int64 -\n"
                                     "    c : bool -\n"
                                     "    x_in : float\n"
                                     "    x_out = Neg(x_in)\n"
                                     "    row = Abs(x_out)\n"
                                     "    shape = Reshape(row,dims)\n"
                                     "    -> c : bool -\n"
                                     "    -> x_out, row, shape\n"
                                     "}\n"
                                     "pairs = Scan(z) num_scan_inputs=1 scan_output_axes=1, body {\n"
                                     "    z_t : float\n"
                                     "    pair = Concat(z_t,z_t) axis=0\n"
                                     "    -> pair\n"
                                     "}\n"
                                     "-> rows, pairs, shaped");
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            rig_set(&rig, 0, INLAY_INT64, "", &(int64_t){ 0 });
            rig_floats(&rig, 1, sizes[i][0], (float[]){ 1, 2, 3, 4, 5, 6 });
            rig_floats(&rig, 2, sizes[i][2], (float[]){ 0 });
            rig_set(&rig, 3, INLAY_INT64, "3", (int64_t[]){ 1, -1, 1 });
            rig_run(&rig);
            rig_expect_floats(&rig, 0, sizes[i][1], (float[]){ 0 });
            rig_expect_floats(&rig, 1, sizes[i][3], (float[]){ 0 });
            rig_expect_floats(&rig, 2, "0,0,0,0", (float[]){ 0 });
        }
        rig_close(&rig);
    }
}

/* Loops with a trip count, a condition, or both; without either, the body's condition ends the loop. */
static void loop_termination(void **state)
{
    static const struct {
        const char *inputs;
        int64_t result;
    } rows[] = { { "n,_,zero", 3 },    { "_,yes,zero", 5 }, { "n,yes,zero", 3 },       { "_,_,zero", 5 },
                 { "many,_,zero", 5 }, { "n,no,zero", 0 },  { "negative,yes,zero", 0 } };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wire wire = { 0 };
        wire_mark mark = mw_begin(&wire, 8, 17);
        struct rig rig;

        script_add(&wire,
                   "n = i[] 3\n"
                   "many = i[1] 1000\n"
                   "negative = i[] -1\n"
                   "yes = bool[] 1\n"
                   "no = bool[] 0\n"
                   "zero = i[] 0\n"
                   "one = i[] 1\n"
                   "five = i[] 5\n"
                   "y = Loop(%s) body {\n"
                   "    i : int64 -\n"
                   "    c : bool -\n"
                   "    k : int64 -\n"
                   "    k1 = Add(k,one)\n"
                   "    go = Less(k1,five)\n"
                   "    -> go : bool -\n"
                   "    -> k1 : int64 -\n"
                   "}\n"
                   "-> y : int64",
                   rows[i].inputs);
        wire_end(&wire, mark);
        rig = rig_open(&wire, NULL);
        for (int k = 0; k < 2; k++) {
            rig_run(&rig);
            rig_expect_ints(&rig, 0, "", &rows[i].result);
        }
        rig_close(&rig);
    }
}

/* Constants have any address in the file; values passed to a body or returned to the caller are aligned. */
static void constants_are_aligned(void **state)
{
    static const int64_t start[] = { 5, 6, 7 };

    (void)state;
    for (uint32_t pad = 0; pad < 8; pad++) {
        struct wire wire = { 0 };
        wire_mark mark, t;
        struct rig rig;

        wire_bytes(&wire, 6, "01234567", pad); /* doc_string */
        mark = mw_begin(&wire, 8, 17);
        mw_value(&wire, MW_INPUT, "n", RIG_INT64, "");
        t = wire_begin(&wire, MW_INITIALIZER);
        mw_tensor_head(&wire, "start", INLAY_INT64, 1, (int64_t[]){ 3 });
        wire_bytes(&wire, 9, (const char *)start, sizeof start);
        wire_end(&wire, t);
        script_add(&wire, "end = Loop(n,_,start) body {\n"
                          "    i : int64 -\n"
                          "    c : bool -\n"
                          "    v : int64 3\n"
                          "    next = Add(v,i)\n"
                          "    -> c : bool -\n"
                          "    -> next : int64 3\n"
                          "}\n"
                          "-> end, start : int64");
        wire_end(&wire, mark);
        rig = rig_open(&wire, NULL);
        rig_set(&rig, 0, INLAY_INT64, "", (int64_t[]){ 3 });
        rig_run(&rig);
        rig_expect_ints(&rig, 0, "3", (int64_t[]){ 8, 9, 10 });
        rig_expect_ints(&rig, 1, "3", start);
        assert_int_equal((uintptr_t)inlay_value_data(inlay_context_output(rig.context, 1)) % 8, 0);
        rig_close(&rig);
    }
}

/* A carried sequence; the next run does not modify the list of the previous run. */
static void loops_carry_sequences(void **state)
{
    inlay_value *lists[4] = { NULL };
    struct rig rig;

    (void)state;
    rig = script_open(NULL, 17,
                      "n : int64 -\n"
                      "x : 2\n"
                      "start = SequenceConstruct(x)\n"
                      "list = Loop(n,_,start) body {\n"
                      "    i : int64 -\n"
                      "    c : bool -\n"
                      "    l_in : sequence float\n"
                      "    f = Cast(i) to=float\n"
                      "    item = Add(x,f)\n"
                      "    l_out = SequenceInsert(l_in,item)\n"
                      "    -> c : bool -\n"
                      "    -> l_out : sequence float\n"
                      "}\n"
                      "last = i[] -1\n"
                      "y = SequenceAt(list,last)\n"
                      "all = ConcatFromSequence(list) axis=0\n"
                      "-> list : sequence float\n"
                      "-> y, all");
    for (int64_t n = 0; n < 4; n++) {
        float x[] = { (float)(10 * n), 1 }, all[8], *at = all;
        char shape[8];

        rig_set(&rig, 0, INLAY_INT64, "", &n);
        rig_floats(&rig, 1, "2", x);
        rig_run(&rig);
        for (int64_t i = 0; i <= n; i++, at += 2) {
            at[0] = x[0] + (float)(i > 0 ? i - 1 : 0);
            at[1] = x[1] + (float)(i > 0 ? i - 1 : 0);
        }
        (void)snprintf(shape, sizeof shape, "%d", (int)(2 * (n + 1)));
        rig_expect_floats(&rig, 1, "2", at - 2);
        rig_expect_floats(&rig, 2, shape, all);
        lists[n] = inlay_value_ref(inlay_context_output(rig.context, 0));
    }
    for (int64_t n = 0; n < 4; n++) {
        assert_int_equal(inlay_value_count(lists[n]), n + 1);
        for (uint32_t i = 0; i <= n; i++) {
            float add = i > 0 ? (float)(i - 1) : 0;
            rig_expect(inlay_value_item(lists[n], i), INLAY_FLOAT, "2", (float[]){ (float)(10 * n) + add, 1 + add });
        }
        inlay_value_unref(lists[n]);
    }
    rig_close(&rig);
}

/* The elements of a split string tensor outlive the tensor and the run. */
static void strings_in_sequences(void **state)
{
    inlay_value *list;
    struct rig rig;

    (void)state;
    rig = script_open(NULL, 17,
                      "s : string 3\n"
                      "list = SplitToSequence(s) keepdims=0\n"
                      "y = SequenceAt(list,zero)\n"
                      "zero = i[] 0\n"
                      "-> list : sequence string\n"
                      "-> y : string");
    rig_bind(&rig, 0, rig_texts(3, (const char *const[]){ "first", "second, which is longer", "third" }));
    rig_run(&rig);
    list = inlay_value_ref(inlay_context_output(rig.context, 0));
    rig_bind(&rig, 0, rig_texts(3, (const char *const[]){ "x", "y", "z" })); /* frees the previous strings */
    rig_run(&rig);
    rig_expect_texts(inlay_context_output(rig.context, 1), 1, (const char *const[]){ "x" });
    rig_expect_texts(inlay_value_item(list, 1), 1, (const char *const[]){ "second, which is longer" });
    inlay_value_unref(list);
    rig_close(&rig);
}

/* Branches whose results differ in shape: an empty result, and a captured input. The message of a failing branch names
 * its operator, and the next run succeeds. */
static void branches_differ(void **state)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), node;
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    (void)state;
    mw_value(&wire, MW_INPUT, "c", RIG_BOOL, "");
    mw_value(&wire, MW_INPUT, "x", RIG_FLOAT, "4");
    mw_value(&wire, MW_INPUT, "at", RIG_INT64, "K");
    node = mw_node_begin(&wire, "If", "c", "b");
    branch(&wire, "then_branch", "Gather", "x,at", "gathered", RIG_FLOAT);
    branch(&wire, "else_branch", "Identity", "x", "same", RIG_FLOAT);
    wire_end(&wire, node);
    mw_node(&wire, "Neg", "b", "y");
    mw_value(&wire, MW_OUTPUT, "y", RIG_FLOAT, NULL);
    mw_value(&wire, MW_OUTPUT, "b", RIG_FLOAT, NULL);
    wire_end(&wire, mark);
    rig = rig_open(&wire, NULL);
    rig_floats(&rig, 1, "4", (float[]){ 1, 2, 3, 4 });
    for (int round = 0; round < 3; round++) {
        rig_set(&rig, 0, INLAY_BOOL, "", &(uint8_t){ 1 });
        rig_set(&rig, 2, INLAY_INT64, "2", (int64_t[]){ 3, 0 });
        rig_run(&rig);
        rig_expect_floats(&rig, 0, "2", (float[]){ -4, -1 });
        rig_set(&rig, 2, INLAY_INT64, "0", (int64_t[]){ 0 });
        rig_run(&rig);
        rig_expect_floats(&rig, 0, "0", (float[]){ 0 });
        rig_set(&rig, 2, INLAY_INT64, "1", (int64_t[]){ 4 });
        assert_int_not_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_OK);
        assert_non_null(strstr(diag.text, "Gather"));
        rig_set(&rig, 0, INLAY_BOOL, "", &(uint8_t){ 0 });
        rig_run(&rig);
        rig_expect_floats(&rig, 0, "4", (float[]){ -1, -2, -3, -4 });
        rig_expect_floats(&rig, 1, "4", (float[]){ 1, 2, 3, 4 });
    }
    rig_close(&rig);
}

/* An optional input that is not bound is absent, in the main graph and in a body. */
static void absent_optionals(void **state)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 18), node;
    struct rig rig;

    (void)state;
    mw_list_value(&wire, MW_INPUT, "o", 9, RIG_FLOAT);
    mw_value(&wire, MW_INPUT, "x", RIG_FLOAT, "2");
    mw_node(&wire, "OptionalHasElement", "o", "has");
    node = mw_node_begin(&wire, "If", "has", "y");
    branch(&wire, "then_branch", "OptionalGetElement", "o", "got", RIG_FLOAT);
    branch(&wire, "else_branch", "Identity", "x", "same", RIG_FLOAT);
    wire_end(&wire, node);
    mw_value(&wire, MW_OUTPUT, "has", RIG_BOOL, "");
    mw_value(&wire, MW_OUTPUT, "y", RIG_FLOAT, NULL);
    wire_end(&wire, mark);
    rig = rig_open(&wire, NULL);
    rig_floats(&rig, 1, "2", (float[]){ 1, 2 });
    for (int i = 0; i < 2; i++) {
        rig_run(&rig);
        rig_expect(inlay_context_output(rig.context, 0), INLAY_BOOL, "", &(uint8_t){ 0 });
        rig_expect_floats(&rig, 1, "2", (float[]){ 1, 2 });
        rig_floats(&rig, 0, "3", (float[]){ 7, 8, 9 });
        rig_run(&rig);
        rig_expect(inlay_context_output(rig.context, 0), INLAY_BOOL, "", &(uint8_t){ 1 });
        rig_expect_floats(&rig, 1, "3", (float[]){ 7, 8, 9 });
        assert_int_equal(inlay_context_set_input(rig.context, 0, NULL, NULL), INLAY_OK);
    }
    rig_close(&rig);
}

/* A sequence whose element type differs from the declared one is rejected, because kernels were chosen for the declared
 * type. */
static void sequences_of_another_type(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *item = rig_tensor(INLAY_UINT8, "1", "x"), *list = NULL;
    struct rig rig;

    (void)state;
    rig = script_open(NULL, 17,
                      "l : sequence float\n"
                      "zero = i[] 0\n"
                      "item = SequenceAt(l,zero)\n"
                      "y = Neg(item)\n"
                      "-> y");
    assert_int_equal(inlay_value_create_list(INLAY_KIND_SEQUENCE, INLAY_UINT8, &item, 1, &list, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(rig.context, 0, list, &diag), INLAY_SHAPE_MISMATCH);
    inlay_value_unref(list);
    inlay_value_unref(item);
    rig_close(&rig);
}

/* Scan-9 over two inputs: axes and directions of inputs and outputs. State: the sum so far. */
static void scan_axes_and_directions(void **state)
{
    struct rig rig;

    (void)state;
    rig = script_open(NULL, 17,
                      "s : 2\n"
                      "a : T,2\n"
                      "b : 2,T\n"
                      "final,sums,both = Scan(s,a,b) num_scan_inputs=2 scan_input_axes=0,-1 scan_input_directions=0,1 "
                      "scan_output_axes=1,0 scan_output_directions=0,1 body {\n"
                      "    s_in : 2\n"
                      "    a_t : 2\n"
                      "    b_t : 2\n"
                      "    ab = Add(a_t,b_t)\n"
                      "    s_out = Add(s_in,ab)\n"
                      "    -> s_out, s_out, ab : 2\n"
                      "}\n"
                      "-> final, sums, both");
    for (int i = 0; i < 2; i++) {
        rig_floats(&rig, 0, "2", (float[]){ 100, 200 });
        rig_floats(&rig, 1, "3,2", (float[]){ 1, 2, 3, 4, 5, 6 });
        rig_floats(&rig, 2, "2,3", (float[]){ 10, 20, 30, 40, 50, 60 });
        rig_run(&rig);
        rig_expect_floats(&rig, 0, "2", (float[]){ 169, 362 });
        rig_expect_floats(&rig, 1, "2,3", (float[]){ 131, 154, 169, 262, 316, 362 });
        rig_expect_floats(&rig, 2, "3,2", (float[]){ 15, 46, 23, 54, 31, 62 });
        rig_floats(&rig, 1, "0,2", (float[]){ 0 });
        rig_floats(&rig, 2, "2,0", (float[]){ 0 });
        rig_run(&rig);
        rig_expect_floats(&rig, 0, "2", (float[]){ 100, 200 });
        rig_expect_floats(&rig, 1, "2,0", (float[]){ 0 });
        rig_expect_floats(&rig, 2, "0,2", (float[]){ 0 });
    }
    rig_close(&rig);
}

/* Scan-8: a batch, lengths of its entries, a reversed input; inputs that do not match. What is behind a length does not
 * count. */
static void scan_of_a_batch(void **state)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 3, 8);
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    (void)state;
    script_add(&wire, "lens : int64 B\n"
                      "s : B,1\n"
                      "a : B,T,1\n"
                      "b : float\n"
                      "final,sums = Scan(lens,s,a,b) num_scan_inputs=2 directions=0,1 body {\n"
                      "    s_in : 1\n"
                      "    a_t : 1\n"
                      "    b_t : 1\n"
                      "    ab = Add(a_t,b_t)\n"
                      "    s_out = Add(s_in,ab)\n"
                      "    -> s_out, ab : 1\n"
                      "}\n"
                      "-> final, sums");
    wire_end(&wire, mark);
    rig = rig_open(&wire, NULL);
    for (int i = 0; i < 2; i++) {
        rig_set(&rig, 0, INLAY_INT64, "2", (int64_t[]){ 3, 2 });
        rig_floats(&rig, 1, "2,1", (float[]){ 100, 200 });
        rig_floats(&rig, 2, "2,3,1", (float[]){ 1, 2, 3, 4, 5, i == 0 ? 6 : NAN });
        rig_floats(&rig, 3, "2,3,1", (float[]){ 10, 20, 30, 40, 50, i == 0 ? 60 : INFINITY });
        rig_run(&rig);
        rig_expect_floats(&rig, 0, "2,1", (float[]){ 166, 299 });
        rig_expect_floats(&rig, 1, "2,3,1", (float[]){ 31, 22, 13, 54, 45, 0 });
        rig_floats(&rig, 3, "2,1,1", (float[]){ 10, 20 }); /* shorter than a */
        assert_int_not_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_OK);
        rig_floats(&rig, 3, "", (float[]){ 10 });
        assert_int_not_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_OK);
    }
    rig_close(&rig);
}

/* A node that the provider does not support, next to a branch without nodes: an error that names the node. */
static void unsupported_beside_an_empty_branch(void **state)
{
    struct wire wire = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    (void)state;
    script_model(&wire, 17,
                 "flag : bool -\n"
                 "x : N\n"
                 "y = If(flag) then_branch {\n"
                 "    negated = Neg(x)\n"
                 "    -> negated\n"
                 "} else_branch {\n"
                 "    one = [1] 1\n"
                 "    -> one : 1\n"
                 "}\n"
                 "places = NonZero(x)\n"
                 "-> y\n"
                 "-> places : int64 1,?");
    assert_int_equal(rig_try_open(&wire, (const char *[]){ "providers", "cpu", NULL }, &rig, &diag), INLAY_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "NonZero"));
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(if_in_loop_in_if),
        cmocka_unit_test(carried_values),
        cmocka_unit_test(loop_termination),
        cmocka_unit_test(loops_carry_sequences),
        cmocka_unit_test(constants_are_aligned),
        cmocka_unit_test(strings_in_sequences),
        cmocka_unit_test(branches_differ),
        cmocka_unit_test(absent_optionals),
        cmocka_unit_test(sequences_of_another_type),
        cmocka_unit_test(scan_axes_and_directions),
        cmocka_unit_test(scan_of_a_batch),
        cmocka_unit_test(no_iteration),
        cmocka_unit_test(unsupported_beside_an_empty_branch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
