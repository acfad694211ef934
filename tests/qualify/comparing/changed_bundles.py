"""Contents of bundles with one thing changed."""

import hashlib

from assay.bundle import Bundle, Contents


def contents_of(path) -> Contents:
    """All that is in a bundle."""
    with Bundle.open(path) as bundle:
        return Contents(
            bundle.manifest,
            tuple(row for family in bundle.families() for row in bundle.rows(family)),
            tuple(map(bundle.variant, bundle.variant_ids())),
            {sha256: bundle.object_bytes(sha256) for sha256 in bundle.object_hashes()},
        )


def with_first(contents, row=lambda row: row, record=lambda record: record):
    """The contents with the first row, and its record, replaced; what the record says of the row follows it."""
    first = row(contents.rows[0])
    said = {"launch": first.launch, "specialisation": first.specialisation}
    records = tuple(
        record(item._replace(**said)) if item.id == contents.rows[0].id else item for item in contents.variants
    )
    return contents._replace(rows=(first, *contents.rows[1:]), variants=records)


def with_code(contents, change):
    """The contents with the first row's code object replaced by what `change` makes of it."""
    code = change(contents.objects[contents.rows[0].object])
    sha256 = hashlib.sha256(code).hexdigest()
    changed = with_first(
        contents, lambda row: row._replace(object=sha256), lambda record: record._replace(code_sha256=sha256)
    )
    used = {row.object for row in changed.rows}
    objects = {**contents.objects, sha256: code}
    return changed._replace(objects={name: data for name, data in objects.items() if name in used})
