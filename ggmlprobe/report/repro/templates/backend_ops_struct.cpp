// test-backend-ops -o @op@_WIDTH: does each of @width@ tokens get the bits it has alone?
// paste below struct @base@:

// @op@: a block of tokens against the same tokens one by one
struct @base@_width : public @base@ {
    using @base@::@base@;

    std::string op_desc(ggml_tensor * t) override {
        GGML_UNUSED(t);
        return "@op@_WIDTH";
    }

    // the whole graph runs on one backend; the other one's output is not looked at
    bool run_whole_graph() override { return true; }

    double max_nmse_err() override { return 0.0; }

    double max_nmse_err(ggml_backend_t backend) override {
        GGML_UNUSED(backend);
        return max_nmse_err();
    }

    // share of elements whose bits differ; the second half of the output are the single tokens
    double err(const float * a, const float * b, size_t n) override {
        GGML_UNUSED(b);
        size_t differing = 0;
        for (size_t i = 0; i < n/2; i++) {
            differing += memcmp(a + i, a + n/2 + i, sizeof(float)) != 0;
        }
        return (double) differing/(n/2);
    }

    ggml_tensor * build_graph(ggml_context * ctx) override {
        ggml_tensor * block = @base@::build_graph(ctx);
@block@
        ggml_tensor * out   = block;
        for (int64_t i = 0; i < @n@; i++) {
@single@
            out = ggml_concat(ctx, out, t, @axis@);
        }
        ggml_set_name(out, "out");
        return out;
    }
};

// and into make_test_cases_eval():

    test_cases.emplace_back(new @base@_width(@arguments@));
