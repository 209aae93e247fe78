// The interactions of the studio in Firefox, by WebDriver BiDi: node firefox.cjs FIREFOX ADDRESS FOLDER.
//
// The server has the runs de-en, en-de, moods, tags, pictures and tones. FOLDER has letter.txt, mine.png and tone.wav.
// Prints what it has done, a line for each step, and last the requests that left the server.

const puppeteer = require("puppeteer-core");

const [firefox, address, folder] = process.argv.slice(2);
const asked = [], failed = [];
let page;

const done = (text) => console.log(text);

// Asks the page until the value is true, and returns it. Not `waitForFunction`: it makes a function of a text, which the
// studio's policy forbids.
async function wait(test, ...given) {
  for (const end = Date.now() + 30_000; Date.now() < end; await new Promise((ready) => setTimeout(ready, 50))) {
    const found = await page.evaluateHandle(test, ...given);
    if (found.asElement() || (await found.jsonValue())) return found;
  }
  throw new Error(`never true: ${test} of ${given}`);
}

const shows = (text) => wait((each) => document.body.innerText.includes(each), text);
const text = (selector) => page.$eval(selector, (each) => each.innerText.trim());
const answered = () => wait(() => document.querySelector(".output[aria-busy=false] .word"));
const visible = (name) => [...document.querySelectorAll("button")].find((each) => each.checkVisibility() && each.textContent.trim() === name);

async function press(name) {
  await (await wait(visible, name)).click();
}

async function write(input) {
  await page.$eval("#source", (area, value) => {
    area.value = value;
    area.dispatchEvent(new InputEvent("input", { bubbles: true }));
  }, input);
  await wait((value) => document.querySelector(".output[aria-busy=false] .word") && location.hash.includes(new URLSearchParams({ text: value })), input);
}

async function choose(name) {
  await page.select("#model", name);
  await wait((each) => document.querySelector(".result").ariaLabel === `Output of ${each}`, name);
}

async function main() {
  const browser = await puppeteer.launch({ browser: "firefox", executablePath: firefox, headless: true,
    extraPrefsFirefox: { "media.navigator.streams.fake": true, "media.navigator.permission.disabled": true } });
  page = await browser.newPage();
  page.on("request", (request) => asked.push(request.url()));
  page.on("pageerror", (error) => failed.push(error.message));
  try {
    await page.goto(`${address}/#model=de-en`);
    await page.waitForSelector("#source");
    await wait(() => document.querySelector("#source").checkVisibility());
    await write("abc\n\ncab");
    if ((await text(".output")).split("\n").length !== 3) throw new Error("paragraphs are lost");
    done("paragraphs");
    if ((await page.$$(".keys .key-item")).length !== 4) throw new Error("no legend");
    done("confidence");
    for (const [view, sign] of [["Other outputs", ".nbest li"], ["Attention", ".view .link"], ["Search tree", ".branches li"], ["Use it from code", ".view pre"]]) {
      await press(view);
      await page.waitForSelector(sign);
      done(view);
      if (view === "Search tree") {
        await press("Fold all");
        await wait(() => [...document.querySelectorAll(".branches li")].filter((each) => each.checkVisibility()).length === 1);
        done("fold");
      }
    }
    await page.click(".output .word");
    await page.waitForSelector(".words button");
    await page.click(".words button");
    await page.waitForSelector(".output .kept");
    done("alternatives");
    await press("Swap languages");
    await wait(() => document.querySelector("#input-title").textContent === "English");
    done("swap");
    await press("Dark");
    await page.reload();
    await wait(() => document.documentElement.dataset.theme === "dark" && document.querySelector("#source").value);
    await answered();
    done("theme and text");
    await press("About this model");
    await shows("Limits");
    await press("Close");
    done("card");
    await press("History");
    await page.waitForSelector(".entry");
    await press("Close");
    done("history");
    await page.select("#compare", "reverse");
    await wait(() => document.querySelectorAll(".result .output[aria-busy=false] .word").length && document.querySelectorAll(".result").length === 2);
    done("two models");
    await choose("de-en");
    await (await page.$("#document")).uploadFile(`${folder}/letter.txt`);
    await shows("letter.txt is ready");
    done("document");
    await page.evaluate(() => {
      const moved = new DataTransfer();
      moved.items.add(new File(["cab"], "dropped.txt"));
      for (const kind of ["dragenter", "drop"]) document.body.dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: moved }));
    });
    await shows("dropped.txt is ready");
    done("drop");
    await press("Clear");
    await wait(() => !document.querySelector("#source").value && !document.querySelector(".output .word"));
    done("clear");
    await choose("moods");
    await write("bad day");
    await page.waitForSelector(".effect");
    done("classifier");
    await choose("tags");
    await write("the dog barks");
    await page.waitForSelector(".tagged");
    await page.click(".tagged");
    await shows("Labels of");
    done("tagger");
    await choose("pictures");
    const box = await (await page.$("#canvas")).boundingBox();
    await page.mouse.move(box.x + 60, box.y + 60);
    await page.mouse.down();
    await page.mouse.move(box.x + 200, box.y + 200, { steps: 4 });
    await page.mouse.up();
    await wait(() => /\d m?s ·/.test(document.querySelector(".facts").textContent));
    done("drawing");
    await (await page.$("#picture-file")).uploadFile(`${folder}/mine.png`);
    await page.waitForSelector("#preview img");
    done("picture");
    await choose("tones");
    await (await page.$("#sound-file")).uploadFile(`${folder}/tone.wav`);
    await page.waitForSelector(".spectrum");
    done("recording");
    await press("Record");
    await page.waitForSelector("#record[aria-pressed=true]");
    await new Promise((ready) => setTimeout(ready, 700));
    await press("Stop and read");
    await page.waitForSelector("#record[aria-pressed=false]");
    await wait(() => /\d m?s ·/.test(document.querySelector(".facts").textContent));
    done("microphone");
    await (await page.$('a[href="docs"]')).click();
    await wait(() => location.pathname === "/docs" && document.querySelector("h3"));
    done("API");
  } catch (error) {
    done(`shown: ${await text("#input").catch(() => "")}`);
    throw error;
  } finally {
    await browser.close();
  }
  const outside = asked.filter((each) => !each.startsWith(address) && !/^(blob|data|about):/.test(each));
  done(`errors ${JSON.stringify(failed)} outside ${JSON.stringify(outside)}`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
