import pickle

from assay.objects import ObjectError


def test_message_says_where_what_what_else_and_what_to_do():
    error = ObjectError("a.hsaco", "machine 62", "224 or 190", "extract it first")
    assert str(error) == "a.hsaco: machine 62; allowed: 224 or 190; hint: extract it first"
    assert (error.where, error.given, error.allowed, error.hint) == (
        "a.hsaco",
        "machine 62",
        "224 or 190",
        "extract it first",
    )
    assert isinstance(error, ValueError)


def test_names_from_a_file_cannot_break_the_line_or_drive_the_terminal():
    text = str(ObjectError("x", "kernel 'a\n\x1b[31m\u202eb'"))
    assert text.isprintable()
    assert "\\n" in text


def test_an_error_survives_the_way_back_from_a_worker_process():
    error = ObjectError("a", "b", "c", "d")
    back = pickle.loads(pickle.dumps(error))
    assert (str(back), back.hint) == (str(error), "d")
