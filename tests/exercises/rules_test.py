"""What a file may hold: words and marks, in the source and in what the compiler made of it. The cheats
(cheats_test.py) get by something; here are honest lines, messages that are to be true, odd spellings."""

import subprocess

import pytest
from tools.grading import object_file
from tools.grading.build import Toolchain
from tools.grading.finding import Failed
from tools.grading.source import read


def broken(source, starter):
    """The finding of reading a file, or None."""
    try:
        read(source, starter)
    except Failed as failed:
        return failed.finding
    return None


NAME = "02_coalescing"


@pytest.fixture
def check(exercises):
    """The rules' finding for the solution of step 02 with some lines more."""

    def check_changed(outside="", in_kernel="", in_sgemm=""):
        exercise = exercises[NAME]
        source = exercise.solution
        for place, text in (
            ("namespace {\n", outside),
            ("  float sum = 0.0f;", in_kernel),
            ("  launch(", in_sgemm),
        ):
            assert source.count(place) == 1
            source = source.replace(place, f"{text}\n{place}")
        return broken(source, exercise.starter), source

    return check_changed


@pytest.mark.parametrize(
    "line",
    [
        "const int map = 1, vector = map, future = vector, async = future;",
        "const int open = 1, signal = open, kill = signal, module = kill, import = module;",
        "const float x = __ldg(A), y = __fmaf_rn(x, x, x);",
        "const int i = min(g.M, g.N) + max(g.K, 1);",
        "std::uint32_t u = 0; static_assert(std::is_same_v<decltype(u), std::uint32_t>);",
        "const auto add = [&](float x) { return x + 1.0f; }; (void)add(1.0f);",
        "if (const int n = 1'000'000; n > 1) (void)n;  // isn't it? \"R\" (a) \\ b",
        '[[maybe_unused]] const char* text = "std::system and asm";',
        "struct Pair { float a, b; } pair{1.0f, 2.0f}; pair.a += pair.b;",
    ],
)
def test_honest_words(check, line):
    finding, _ = check(in_kernel=line)
    assert finding is None, finding


@pytest.mark.parametrize(
    "text",
    [
        "#define IDX(i, j, ld) ((i) * (ld) + (j))",
        "#define SUM(a, b) \\\n  ((a) + \\\n   (b))",
        "#if 0\n#endif",
        "template <int N>\n__device__ __forceinline__ float power(float x) {\n"
        "  if constexpr (N == 0) return 1.0f;\n  else { return x * power<N - 1>(x); }\n}",
        "constexpr int table[] = {1, 2, 3};",
        "struct __align__(16) Wide { float x[4]; __device__ float sum() const { return x[0] + x[1]; } };",
    ],
)
def test_honest_code_outside_the_kernel(check, text):
    finding, _ = check(outside=f"namespace {{\n{text}\n}}" if "#" not in text else text)
    assert finding is None, finding


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("sum = __ballot_sync(0xffffffff, 1);", "CUDA has it, but the CPU device"),
        ("std::thread t;", "numbers and types only"),
        ("std :: /* */ ranges::copy(a, b);", "std::ranges::copy"),
        ("st\\\nd::copy(a, b, c);", "std::copy"),
        ("kernel<<<grid, block>>>(g);", "Write launch"),
        ("[[gnu::noinline]] int n;", "attributes"),
        ("const char* s = R\"(a)\";", "of the kind R"),
        ('asm volatile("");', "inline assembly"),
        ("#define UNSEEN __attribute__((noipa))\nUNSEEN int n;", "`__attribute__`"),
        ("#define TRUTH exercise_guard::truth\nTRUTH(g);", "the grader"),
        ("const int run_on_cpu = 0;", "the grader"),
        ("int cublasSgemm(const Gemm& g);", "no exercise"),
        ("int n;\n#line 1 \"common/step.hpp\"", "`#line` and"),
        ("#pragma GCC optimize(\"O0\")", "nly #pragma unroll"),
        ("#include <vector>", "only the starter's includes"),
        ("// \\\n/*\nint n = std::system(0);\n// */", "`std::system` is not allowed"),
        ("extern __shared__ float smem[];", "no `extern __shared__`"),
        ("__shared__ alignas(16) float tile[4];", "__align__(16)"),
        ("atomicMax(&sum, 1);", "`atomicMax`"),
        ("const double2 pair = make_double2(1, 2);", "`double2`"),
        ("std::array<float, 4> sums;", "plain array"),
        ("const int n = std::min(g.M, 4);", "without it"),
    ],
)  # fmt: skip
def test_refused(check, line, words):
    finding, source = check(in_kernel=line)
    assert finding is not None
    assert words in finding.says
    lines = source.splitlines()
    first = 1 + next(n for n, text in enumerate(lines) if text.startswith(line.split("\n")[0]))
    assert first <= finding.line <= first + line.count("\n"), finding


def test_nothing_is_forbidden_in_starters_and_solutions(exercises):
    for exercise in exercises.values():
        if exercise.kind != "predict":
            starter = exercise.starter
            for source in (starter, exercise.solution):
                assert broken(source, starter) is None


@pytest.mark.parametrize("text", ["", "\n", " \t\r\n\n", "\ufeff"])
def test_an_empty_file(exercises, text):
    finding = broken(text, exercises[NAME].starter)
    assert finding.says == "The file is empty."
    assert "reset" in finding.look


# ---- What the compiler made ----


@pytest.fixture
def compiles(exercises, build):
    """The finding of compiling the solution of step 02 with some lines more, or None."""

    def compile_changed(outside="", in_kernel="", in_sgemm="", gpu=False):
        source = exercises[NAME].solution
        source = source.replace("namespace {\n", f"namespace {{\n{outside}\n")
        source = source.replace("  float sum = 0.0f;", f"  {in_kernel}\n  float sum = 0.0f;")
        source = source.replace("  launch(", f"  {in_sgemm}\n  launch(")
        try:
            toolchain = Toolchain(build, NAME)
            built = toolchain.compile(read(source, exercises[NAME].starter), source)
            if gpu:
                toolchain.compile_machine_code(built)
        except Failed as error:
            return error.finding
        return None

    return compile_changed


@pytest.mark.parametrize(
    ("outside", "in_kernel", "in_sgemm", "words"),
    [
        ("int calls = 0;", "", "++calls;", "`calls` outlives a call"),
        ("", "", "static const int n = g.N; if (n < 0) return;", "`n` outlives a call"),
        ("", "", "if (rand() == 7) return;", "`rand`"),
        ("", "", "auto p = new float[g.M]; p[0] = 1; if (g.C == p) return;", "`operator new[]`"),
        ("", "C[0] = ::memccpy(C, A, 1, 4) == nullptr;", "", "`memccpy`"),
        ("", "", "const auto k = [](Gemm) {}; launch(k, grid, block, 0, g);", "lambda is launched"),
        (
            "float twice(float x) { return 2 * x; }",
            "C[0] = twice(A[0]);",
            "",
            "`twice`, before which __device__",
        ),
        ("constexpr float w[2] = {1, 2};", "C[0] = w[row % 2];", "", "`w`, which is the host's"),
        (
            "constexpr float4 w(1, 2, 3, 4);",
            "const float4 v = w; C[0] = v.x;",
            "",
            "`w`, which is the host's",
        ),
    ],
)
def test_found_in_the_object(compiles, outside, in_kernel, in_sgemm, words):
    finding = compiles(outside, in_kernel, in_sgemm)
    assert finding is not None
    assert finding.code in ("rule", "no CUDA")
    assert words in finding.says
    assert finding.line


@pytest.mark.parametrize(
    ("outside", "in_kernel"),
    [
        ("constexpr float weight = 2.0f;", "C[0] = weight + min(g.K, TILE);"),
        ("__device__ constexpr float w[] = {1, 2};", "C[0] = w[row % 2];"),
        ("__device__ __noinline__ float twice(float x) { return 2 * x; }", "C[0] = twice(A[0]);"),
        ("", "assert(row < g.M); const int2 p = make_int2(row, col); C[0] = p.x + int4{1, 2, 3, 4}.w;"),
        ("__shared__ float tile[64];", "tile[threadIdx.x] = 1.0f; C[0] = tile[threadIdx.x];"),
        ("", "__shared__ float big[12288]; big[threadIdx.x] = 1.0f; C[0] = big[threadIdx.x];"),
        (
            "struct Large { float v[64]; };",
            "Large x = *reinterpret_cast<const Large*>(A); C[0] = x.v[g.K % 64];",
        ),
    ],
)
def test_honest_objects(compiles, outside, in_kernel):
    assert compiles(outside, in_kernel) is None


def test_what_nvcc_alone_finds(compiles, build):
    if not Toolchain(build, NAME).has_nvcc:
        pytest.skip("needs nvcc")
    finding = compiles("constexpr float weights[2] = {1, 2};", "C[0] = weights[1];", gpu=True)
    assert finding is not None
    assert "not CUDA" in finding.says
    assert "ANON" not in finding.says
    assert finding.line


def test_a_file_that_is_no_object(tmp_path):
    (tmp_path / "plain.o").write_text("nothing")
    with pytest.raises(OSError, match="objdump"):
        object_file.check_object(tmp_path / "plain.o", "")


def test_a_function_that_is_chosen_before_the_program_begins(tmp_path):
    made = tmp_path / "plain.o"
    source = 'extern "C" void* choose() { return nullptr; }\nint one() __attribute__((ifunc("choose")));\n'
    subprocess.run(["g++", "-c", "-x", "c++", "-", "-o", made], input=source, text=True, check=True)
    with pytest.raises(Failed, match="before or after"):
        object_file.check_object(made, "")
