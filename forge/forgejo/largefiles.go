package forgejo

import (
	"context"
	"slices"

	"codeberg.org/johba/disinto/forge"
)

// mostFiles is how many files one request asks for. git-lfs asks for as many.
const mostFiles = 100

// MissingFiles returns those of some files that Git LFS does not store for a repository.
func (d *Desk) MissingFiles(ctx context.Context, repo string, files []forge.LargeFile) (
	missing []forge.LargeFile, err error,
) {
	defer wrap(&err, "ask for the large files of %s", repo)
	for some := range slices.Chunk(files, mostFiles) {
		stored, err := d.storedFiles(ctx, repo, some)
		if err != nil {
			return nil, err
		}
		for _, f := range some {
			if !stored[f.ID] {
				missing = append(missing, f)
			}
		}
	}
	return missing, nil
}

// storedFiles returns the ids of those of some files that can be downloaded.
func (d *Desk) storedFiles(ctx context.Context, repo string, files []forge.LargeFile) (map[string]bool, error) {
	type object struct {
		OID     string              `json:"oid"`
		Size    int64               `json:"size"`
		Actions map[string]struct{} `json:"actions,omitempty"`
	}
	form := struct {
		Operation string   `json:"operation"`
		Transfers []string `json:"transfers"`
		Objects   []object `json:"objects"`
	}{Operation: "download", Transfers: []string{"basic"}}
	for _, f := range files {
		form.Objects = append(form.Objects, object{OID: f.ID, Size: f.Size})
	}
	var answer struct {
		Objects []object `json:"objects"`
	}
	if err := d.batch(ctx, repo, form, &answer); err != nil {
		return nil, err
	}
	stored := make(map[string]bool)
	for _, o := range answer.Objects {
		if _, ok := o.Actions["download"]; ok {
			stored[o.OID] = true
		}
	}
	return stored, nil
}
